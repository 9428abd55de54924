"""Sentences that a caller needs one time, although the decision is made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class Announcement(Lookup[None], frozen=True):
    """Send notes, each text one time in a call."""

    records = ""
    kept = True

    texts: tuple[str, ...]

    def answer(self, reader: Reader) -> None:
        for text in self.texts:
            reader.performer.caller.note(text)
