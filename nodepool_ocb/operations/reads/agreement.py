"""The agreement of the caller to a change that cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class Agreement(Lookup["frozenset[str] | None"], frozen=True):
    """Ask for agreement to a change, one time in a call. The answer is ``covers`` as it was when the caller agreed.

    None if the call carried the agreement, so that it was not asked for. ``text`` continues "This will ...".
    """

    records = ""
    kept = True

    text: str
    details: tuple[str, ...] = ()  # lines that are shown before
    covers: frozenset[str] = frozenset()  # the records that the agreement is about

    @property
    def key(self) -> object:
        return Agreement

    def answer(self, reader: Reader) -> frozenset[str] | None:
        return self.covers if reader.performer.caller.agree(self.text, self.details) else None
