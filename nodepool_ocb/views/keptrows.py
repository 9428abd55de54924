"""Rows of noderoles that were made before, with their JSON: after a change, only the changed rows are made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from nodepool_ocb.engine import readiness
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.views import noderoles as shown
from nodepool_ocb.views.noderoles import NoderoleRow

LEAST_KEPT: Final = 1000


class EncodedRows(list[NoderoleRow]):
    """Rows with the JSON of each."""

    def __init__(self, rows: Iterable[NoderoleRow], encoded: Sequence[bytes]) -> None:
        super().__init__(rows)
        self.encoded = encoded

    def json(self) -> msgspec.Raw:
        """All rows as a JSON array."""
        if not self.encoded:
            return msgspec.Raw(b"[]")
        first, *others = self.encoded
        return msgspec.Raw(
            b",".join((b"[" + first, *others[:-1], others[-1] + b"]")) if others else b"[" + first + b"]"
        )


class KeptRow(msgspec.Struct, frozen=True, gc=False):
    """A row with its JSON. ``settled``: it shows its own record alone."""

    row: NoderoleRow
    encoded: bytes
    settled: bool


class KeptRows:
    """The rows that were made before; on one thread at a time.

    ``forget`` must name each noderole whose record changed. The rows of noderoles that wait depend on other records, and are made
    again each time.
    """

    def __init__(self) -> None:
        self._kept: dict[Vertex, KeptRow] = {}
        self._most = LEAST_KEPT  # before rows of deleted noderoles are looked for
        self._order: tuple[list[Vertex], list[Vertex]] = ([], [])  # those of the last list, as given and by name

    def __len__(self) -> int:
        return len(self._kept)

    def forget(self, changed: Iterable[Vertex]) -> None:
        """These noderoles have another record, or are deleted."""
        for vertex in changed:
            self._kept.pop(vertex, None)

    def of(self, vertices: list[Vertex]) -> EncodedRows:
        """The rows of these noderoles, by name."""
        kept, rows, encoded = self._kept, list[NoderoleRow](), list[bytes]()
        for vertex in self._by_name(vertices):
            found = kept.get(vertex)
            if found is None or not found.settled:
                found = kept[vertex] = _made(vertex)
            rows.append(found.row)
            encoded.append(found.encoded)
        if len(kept) > self._most:
            self._kept = {vertex: row for vertex, row in kept.items() if _exists(vertex)}
            self._most = 2 * len(self._kept) + LEAST_KEPT
        return EncodedRows(rows, encoded)

    def _by_name(self, vertices: list[Vertex]) -> list[Vertex]:
        given, named = self._order
        if given != vertices:  # they compare by identity
            named = sorted(vertices, key=attrgetter("name"))
            self._order = vertices, named
        return named


def _made(vertex: Vertex) -> KeptRow:
    row = shown.row(vertex)
    return KeptRow(row, msgspec.json.encode(row), vertex.record.state not in readiness.WAITING_STATES)


def _exists(vertex: Vertex) -> bool:
    return vertex.node.noderoles.get(vertex.role) is vertex
