"""The journal in ZooKeeper: an entry is written with the transaction that it describes; the oldest are deleted when
there are too many.

Launchers have a folder of their own (``pool``), so they cannot delete the entries of people, and many requests displace none.
Numbers are ZooKeeper's, and rise without a gap in each folder. A reader that knows the last number it read can tell which
entries are new, and which are lost. No cache and no load of the world has the entries. Without changes, nothing reads or writes
here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.records import Append, Change, Set
from nodepool_ocb.store.client import access, codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.client.tree import NATIVE, ImageTree
from nodepool_ocb.store.subtree import discard

if TYPE_CHECKING:
    from nodepool_ocb.config import ZooKeeperSettings

#: The entry for changes, given the znodes that their Sets replace; None if the changes need no entry.
Note = Callable[[Session, Sequence[Change], Sequence[Znode]], Entry | None]


class Journaled(Session):
    """A session with an author: the transactions that it commits stand in the journal, in the same transaction.

    ``noting`` is False for a user without the right to add entries, such as a requester: its transactions have none.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        note: Note,
        *,
        noted: Callable[[], None] = lambda: None,
        on_connected: Callable[[], None] | None = None,
        tree: ImageTree = NATIVE,
    ) -> None:
        """``noted`` is called when an entry is written."""
        super().__init__(settings, on_connected=on_connected, tree=tree)
        self._note, self._noted = note, noted
        self.noting = access.may(settings, paths.JOURNAL_ENTRIES, "c")

    def commit(self, changes: Sequence[Change]) -> Stats:
        """Commit as a session does; the stats are those of ``changes``."""
        if not self.noting:
            return super().commit(changes)
        wanted = [change.path for change in changes if isinstance(change, Set)]
        folder, *replaced = self.get_many([paths.JOURNAL_ENTRIES, *wanted])
        entry = self._note(self, changes, [znode for znode in replaced if znode is not None])
        if entry is None:
            return super().commit(changes)
        if folder is None:  # the cluster is older than the journal
            self.ensure(paths.JOURNAL_ENTRIES)
        stats = super().commit([*changes, Append(paths.JOURNAL_ENTRIES, entry)])
        self._noted()
        if folder is not None and folder.children >= limits.ENTRIES:
            trim(self)
        return stats[:-1]


def write(session: Session, entry: Entry) -> None:
    """An entry by itself, about an action that was not done; raises the exceptions of commit."""
    folder = session.get(paths.JOURNAL_ENTRIES)
    if folder is None:
        session.ensure(paths.JOURNAL_ENTRIES)
    session.commit([Append(paths.JOURNAL_ENTRIES, entry)])
    if folder is not None and folder.children >= limits.ENTRIES:
        trim(session)


def trim(session: Session, pool: bool = False) -> None:
    """Delete the oldest entries if there are more than ``ENTRIES``. A failure is ignored: a later writer deletes them.

    The deletion itself has no entry. ``pool``: the entries of launchers.
    """
    folder = _folder(pool)
    most, left = (limits.POOL_ENTRIES, limits.POOL_ENTRIES_LEFT) if pool else (limits.ENTRIES, limits.ENTRIES_LEFT)
    with contextlib.suppress(OcbError):
        names = sorted(session.children(folder) or ())
        if len(names) <= most:
            return
        discard(session, [f"{folder}/{name}" for name in names[:-left]])


def _folder(pool: bool) -> str:
    return paths.JOURNAL_POOL if pool else paths.JOURNAL_ENTRIES


class FoundEntry(NamedTuple):
    """An entry that was read, or why it cannot be."""

    number: int
    entry: Entry | None
    problem: str = ""
    zxid: int = 0  # of its transaction
    made: int = 0  # the time of that, in milliseconds since the epoch


def numbers(session: Session, pool: bool = False) -> list[int]:
    """The numbers of all entries, rising. ``pool``: of those of launchers."""
    return sorted(int(name) for name in session.children(_folder(pool)) or () if name.isdecimal())


def read(session: Session, wanted: Sequence[int], pool: bool = False) -> Iterator[FoundEntry]:
    """The entries of these numbers that still exist, in this order. ``pool``: those of launchers."""
    path = paths.pool_entry if pool else paths.entry
    for number, znode in zip(wanted, session.stream(map(path, wanted)), strict=True):
        if znode is not None:
            try:
                yield FoundEntry(number, codec.decode(Entry, znode), "", znode.czxid, round(znode.ctime * 1000))
            except Invalid as wrong:
                yield FoundEntry(number, None, str(wrong), znode.czxid, round(znode.ctime * 1000))


class Cursor(NamedTuple):
    """The progress of the webhook; ``record`` is None if it never delivered, the version -1 if there is no znode."""

    record: Webhook | None
    version: int


def cursor(session: Session) -> Cursor:
    """The progress of the webhook; -1 as the last number if the journal was made again since. Raises Invalid if it
    cannot be read.
    """
    znode, folder, pool = session.get_many([paths.WEBHOOK, paths.JOURNAL_ENTRIES, paths.JOURNAL_POOL])
    if znode is None or not znode.data:
        return Cursor(None, -1 if znode is None else znode.version)
    record = codec.decode(Webhook, znode)
    if folder is not None and folder.czxid > znode.mzxid:
        record = replace(record, delivered=-1)
    if pool is not None and pool.czxid > znode.mzxid:
        record = replace(record, pool_delivered=-1)
    return Cursor(record, znode.version)
