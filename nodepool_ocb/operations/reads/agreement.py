"""The agreement of the caller to a change that cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class Agreed(msgspec.Struct, frozen=True):
    """An agreement: the records that it covers; ``asked``: a person was asked, so nothing more may go."""

    covers: frozenset[str]
    asked: bool


class Agreement(Lookup[Agreed], frozen=True):
    """Ask for agreement to a change, one time in a call. Later attempts get the first agreement, with its ``covers``.

    ``text`` continues "This will ...".
    """

    records = ""
    kept = True

    text: str
    details: tuple[str, ...] = ()  # lines that are shown before
    covers: frozenset[str] = frozenset()  # the records that the agreement is about

    @property
    def key(self) -> object:
        return Agreement

    def answer(self, reader: Reader) -> Agreed:
        return Agreed(self.covers, reader.performer.caller.agree(self.text, self.details))
