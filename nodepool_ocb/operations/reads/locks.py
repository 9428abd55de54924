"""The holders of locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class ReadHolders(Lookup[Sequence[LockOwner | None]], frozen=True):
    """The holders of the locks at these paths, in this order; None for a lock that is free."""

    records = "locks"

    places: tuple[str, ...]

    def answer(self, reader: Reader) -> Sequence[LockOwner | None]:
        from nodepool_ocb.store.locks import holders

        return holders(reader.session, list(self.places))


class ReadTaskRunsUnderWay(Lookup[list[tuple[str, str]]], frozen=True):
    """The runs of tasks that are driven or prepared, by deployment and id; broken pointers are left out."""

    records = "runs of tasks"

    def answer(self, reader: Reader) -> list[tuple[str, str]]:
        from nodepool_ocb.store.tasks import runs

        return runs.under_way(reader.session)
