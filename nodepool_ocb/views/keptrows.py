"""Rows of noderoles that were made before, with their JSON: after a change, only the changed rows are made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from nodepool_ocb.engine import readiness
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import NodeRole
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
        return msgspec.Raw(b"[" + b",".join(self.encoded) + b"]")


class KeptRow(msgspec.Struct, frozen=True, gc=False):
    """A row that was made of this record."""

    record: NodeRole
    row: NoderoleRow
    encoded: bytes


class KeptRows:
    """The rows that were made before; on one thread at a time."""

    def __init__(self) -> None:
        self._kept: dict[Vertex, KeptRow] = {}
        self._most = LEAST_KEPT  # before rows of deleted noderoles are looked for

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, vertices: Sequence[Vertex]) -> EncodedRows:
        """The rows of these noderoles. A row depends on its own record, and on the reason that other records give it."""
        kept, rows, encoded = self._kept, list[NoderoleRow](), list[bytes]()
        for vertex in vertices:
            found = kept.get(vertex)
            if found is None or found.record is not vertex.record or found.row.reason != readiness.standing(vertex):
                row = shown.row(vertex)
                found = kept[vertex] = KeptRow(vertex.record, row, msgspec.json.encode(row))
            rows.append(found.row)
            encoded.append(found.encoded)
        if len(kept) > self._most:
            self._forget()
        return EncodedRows(rows, encoded)

    def _forget(self) -> None:
        """Forget the rows of deleted noderoles."""
        self._kept = {vertex: row for vertex, row in self._kept.items() if _exists(vertex)}
        self._most = 2 * len(self._kept) + LEAST_KEPT


def _exists(vertex: Vertex) -> bool:
    return vertex.node.noderoles.get(vertex.role) is vertex
