"""Transactions with a lost answer: their znodes and the journal are read, and ``outcome`` decides.

Nothing here writes. Each function raises Unavailable if the connection breaks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from nodepool_ocb.errors import OutcomeUnknown
from nodepool_ocb.model.records import Append
from nodepool_ocb.store.client import outcome
from nodepool_ocb.store.client.frames import Znode, ZnodeStat
from nodepool_ocb.store.client.outcome import Appended, SentTransaction, TransactionOutcome
from nodepool_ocb.store.client.reading import SessionReads

Stats: TypeAlias = list[ZnodeStat | None]

AT_ONCE: Final = 100  # children that are read, newest first, before the next are


class Doubt(OutcomeUnknown):
    """The answer to ``sending`` was lost; ``Session.resolve`` settles it."""

    def __init__(self, message: str, sending: SentTransaction) -> None:
        super().__init__(message)
        self.sending = sending


def look(reading: SessionReads, sending: SentTransaction) -> tuple[TransactionOutcome, Stats]:
    """The fate of a transaction, and its answer if it was applied."""
    reading.sync()
    found = reading.get_many([change.path for change in sending.changes])
    appended = [
        _appended(reading, change.path, wrote, sending.zxid)
        for change, wrote in zip(sending.changes, sending.data, strict=True)
        if isinstance(change, Append)
    ]
    finding = outcome.find(sending, found, appended)
    return finding, outcome.stats(sending, found, finding.zxid)


def numbered(reading: SessionReads, prefix: str, wrote: bytes, before: int) -> str | None:
    """The path that begins with ``prefix``, ends in ZooKeeper's number and holds ``wrote``; None if none is there now."""
    reading.sync()
    folder, _, start = prefix.rpartition("/")
    for znode in _newest(reading, folder, start):
        if znode.data == wrote:
            return znode.path
        if znode.czxid <= before:
            return None
    return None


def _appended(reading: SessionReads, folder: str, wrote: bytes, before: int) -> Appended:
    """Our entry among those that were made since the sending."""
    lowest = ""
    for znode in _newest(reading, folder, ""):
        if znode.data == wrote:
            return Appended(zxid=znode.czxid)
        if znode.czxid <= before:
            return Appended(absent=True)
        lowest = znode.path[-10:]
    return Appended(absent=not lowest or int(lowest) == 0)  # else ours may be among those that were deleted since


def _newest(reading: SessionReads, folder: str, start: str) -> Iterator[Znode]:
    """The children with names of ``start`` and ten digits, the newest first."""
    names = [name for name in reading.children(folder) or () if name.startswith(start) and name[-10:].isdecimal()]
    names.sort(key=lambda name: name[-10:], reverse=True)
    for first in range(0, len(names), AT_ONCE):
        yield from _there(reading, [f"{folder}/{name}" for name in names[first : first + AT_ONCE]])


def _there(reading: SessionReads, paths: Sequence[str]) -> Iterator[Znode]:
    return (znode for znode in reading.get_many(paths) if znode is not None)
