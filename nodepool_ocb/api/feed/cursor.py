"""The id of an event: the place in the stream behind it, at which any server goes on. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid

_NUMBER: Final = r"-1|[0-9]{1,18}"
_WHOLE: Final = re.compile(rf"({_NUMBER})-({_NUMBER})-({_NUMBER})-({_NUMBER})-({_NUMBER})")
_ENTRY: Final = re.compile(_NUMBER)


class EventCursor(msgspec.Struct, frozen=True):
    """What a client has: the entries of the journal up to two numbers, and the records as of a transaction.

    The times of the two entries tell whether an entry of this number is still the same one. -1: none.
    """

    entry: int = -1
    pool: int = -1  # of launchers
    zxid: int = -1  # -1: the records as they are at the start
    entry_made: int = -1  # milliseconds since the epoch
    pool_made: int = -1

    def number(self, pool: bool) -> int:
        """The last entry of a folder."""
        return self.pool if pool else self.entry

    def mark(self, pool: bool) -> int:
        """The time of that entry; -1 if it is not known."""
        return self.pool_made if pool else self.entry_made

    def after_entry(self, number: int, made: int, pool: bool) -> EventCursor:
        """With an entry more."""
        if pool:
            return msgspec.structs.replace(self, pool=number, pool_made=made)
        return msgspec.structs.replace(self, entry=number, entry_made=made)

    def after_changes(self, zxid: int) -> EventCursor:
        """With the changes of all transactions up to this one."""
        return msgspec.structs.replace(self, zxid=max(self.zxid, zxid))


def text(cursor: EventCursor) -> str:
    """The id of an event.

    >>> text(EventCursor(42, -1, 900, 880, -1)), parse("42--1-900-880--1") == EventCursor(42, -1, 900, 880, -1)
    ('42--1-900-880--1', True)
    """
    return "-".join(str(each) for each in msgspec.structs.astuple(cursor))


def parse(given: str) -> EventCursor:
    """An id, or the number of an entry alone: the entries above it, and the changes from now on. Raises Invalid.

    >>> parse("42")
    EventCursor(entry=42, pool=-1, zxid=-1, entry_made=-1, pool_made=-1)
    """
    if _ENTRY.fullmatch(given):
        return EventCursor(entry=int(given))
    found = _WHOLE.fullmatch(given)
    if found is None:
        raise Invalid("this is no id of an event: give an id as the stream gave it, or the number of an entry")
    return EventCursor(*map(int, found.groups()))
