"""Rows of noderoles that were made before, with their JSON: after a change, only the changed rows are made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from nodepool_ocb.engine import readiness
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.views import noderoles as shown
from nodepool_ocb.views.noderoles import NoderoleRow

LEAST_KEPT: Final = 1000
ROWS: Final = 64  # of a part

#: ``KeptRows.at_once``: a row is made in about 10 us, and 1 MB is joined in 0.3 ms.
MOST_AT_ONCE: Final = 100
MOST_BYTES: Final = 4_000_000


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
        self._parts: RowParts | None = None  # of all noderoles; None until ``whole`` is asked for

    def __len__(self) -> int:
        return len(self._kept)

    def forget(self, changed: Iterable[Vertex]) -> None:
        """These noderoles have another record, or are deleted."""
        for vertex in changed:
            self._kept.pop(vertex, None)
            if self._parts is not None and not self._parts.forget(vertex):
                self._parts = None

    @property
    def at_once(self) -> bool:
        """Whether ``whole`` ends within a millisecond or two: few rows are to be made, and not too many bytes to be joined."""
        parts = self._parts
        return parts is not None and parts.due <= MOST_AT_ONCE and parts.size <= MOST_BYTES

    def whole(self, vertices: Callable[[], Iterable[Vertex]]) -> list[bytes]:
        """The rows of all noderoles of the world, by name: JSON, which becomes one array between brackets."""
        if self._parts is None:
            self._parts = RowParts(vertices())
        return self._parts.joined(self._row)

    def _row(self, vertex: Vertex) -> KeptRow:
        found = self._kept.get(vertex)
        if found is None or not found.settled:
            found = self._kept[vertex] = _made(vertex)
        return found

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


class RowParts:
    """The rows of a world in parts, by name. A part with a changed row, or with one that waits, is joined again."""

    def __init__(self, vertices: Iterable[Vertex]) -> None:
        self._vertices = sorted(vertices, key=attrgetter("name"))
        self._part = {vertex: number // ROWS for number, vertex in enumerate(self._vertices)}
        self._joined = [b""] * len(range(0, len(self._vertices), ROWS))
        self._changed = {*self._vertices}
        self._waiting: set[Vertex] = set()

    @property
    def size(self) -> int:
        """Of all parts when they were joined last, in bytes."""
        return sum(map(len, self._joined))

    @property
    def due(self) -> int:
        """How many rows are to be made, at most."""
        return len(self._changed) + len(self._waiting)

    def forget(self, vertex: Vertex) -> bool:
        """Its record changed; False if these are not the noderoles of the world any more."""
        if vertex not in self._part or not _exists(vertex):
            return False
        self._changed.add(vertex)
        return True

    def joined(self, row: Callable[[Vertex], KeptRow]) -> list[bytes]:
        """As ``KeptRows.whole``; ``row`` gives each one."""
        for part in {self._part[vertex] for vertex in self._changed | self._waiting}:
            encoded = []
            for vertex in self._vertices[part * ROWS : (part + 1) * ROWS]:
                found = row(vertex)
                (self._waiting.discard if found.settled else self._waiting.add)(vertex)
                encoded.append(found.encoded)
            self._joined[part] = (b"," if part else b"") + b",".join(encoded)
        self._changed.clear()
        return self._joined


def _made(vertex: Vertex) -> KeptRow:
    row = shown.row(vertex)
    return KeptRow(row, msgspec.json.encode(row), vertex.record.state not in readiness.WAITING_STATES)


def _exists(vertex: Vertex) -> bool:
    return vertex.node.noderoles.get(vertex.role) is vertex
