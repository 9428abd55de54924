"""Feeding the streams of events from the cache of a server: on the turn thread, beside its refresh.

ZooKeeper sends the events of all transactions before an answer that has seen them. So after a refresh everything up to the zxid
that was seen before it is known in full; records and entries beyond that wait for the next refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import ChangesItem, EntryItem, Item, ShownChange, entry_item, shown_change
from nodepool_ocb.api.feed.ring import EventFeed
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.journal import FoundEntry
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.views.history import entries
from nodepool_ocb.views.history.entries import EntryRow
from nodepool_ocb.views.history.recordchanges import KEPT, RecordChange, SeenRecords

AT_ONCE: Final = 16  # entries in the first request for new ones
PAGE: Final = 200  # in others
FOLDERS: Final = (False, True)  # of people and annealers, of launchers

RESTORED: Final = "the numbers of ZooKeeper went back: it was restored from an older copy"
LOST: Final = "entries of the journal were deleted before this server read them"


class TakenEntries(NamedTuple):
    """New entries up to a transaction, with their folders; ``news``: the news of which these are all."""

    zxid: int
    entries: tuple[tuple[bool, FoundEntry], ...]
    news: int


class Feeder:
    """Feeds ``feed``; ``wake`` asks for another turn."""

    def __init__(self, session: Session, feed: EventFeed, wake: Callable[[], None]) -> None:
        self._session = session
        self._feed = feed
        self._wake = wake
        self._seen = SeenRecords()
        self._begun = False
        self._news = 1  # how often the journal may have grown; counted on the connection's thread
        self._read = 0  # of these, those of which all entries are published

    def watch(self) -> None:
        """In a new session. Raises Unavailable."""
        self._session.watch(paths.JOURNAL, self._on_journal)

    def _on_journal(self, kind: str, path: str) -> None:
        if kind == "created" or path in (paths.JOURNAL_ENTRIES, paths.JOURNAL_POOL):
            self._news += 1
            self._wake()

    # -- reading --

    def begin(self, world: World, zxid: int) -> None:
        """Everything was read in a new session; ``zxid`` was seen before that. Raises Unavailable."""
        self._news += 1
        newest, torn = self._newest(zxid)
        taken = self.take(zxid)
        self._feed.token_changed()
        changes = self._seen.look(world, self._seen.places(world), list(KEPT), zxid)
        if self._seen.backwards or zxid < self._feed.now().newest.zxid:
            torn = RESTORED
        if self._begun and not torn:
            self._publish(world, changes, taken)
        else:
            self._begin_anew(newest, torn if self._begun else "")

    def _begin_anew(self, newest: EventCursor, torn: str) -> None:
        self._feed.begin(newest, torn)
        self._begun, self._seen.backwards = True, False
        self._news += 1  # entries behind ``newest``
        self._again()

    def _newest(self, zxid: int) -> tuple[EventCursor, str]:
        """The newest entries up to a transaction; and why those that were known do not lead there, empty if they do."""
        before, now, torn = self._feed.now().newest, EventCursor(zxid=zxid), ""
        for pool in FOLDERS:
            known = before.number(pool)
            kept = journal.numbers(self._session, pool)
            last = [known, *kept[-PAGE:]]
            found = {each.number: each for each in journal.read(self._session, last, pool)}
            if kept and kept[0] > known + 1:
                torn = LOST
            if known > max(kept, default=-1) or (known in found and found[known].made != before.mark(pool)):
                torn = RESTORED
            newest = max(
                (each for each in found.values() if each.zxid <= zxid), key=lambda each: each.number, default=None
            )
            if newest is not None:
                now = now.after_entry(newest.number, newest.made, pool)
        return now, torn

    def take(self, zxid: int) -> TakenEntries:
        """The new entries up to a transaction, before the cache is refreshed. Raises Unavailable."""
        news = self._news
        if news == self._read:
            return TakenEntries(zxid, (), news)
        found = tuple((pool, each) for pool in FOLDERS for each in self._of_folder(pool))
        older = tuple((pool, each) for pool, each in found if each.zxid <= zxid)
        return TakenEntries(zxid, older, news if len(older) == len(found) else self._read)

    def _of_folder(self, pool: bool) -> Iterator[FoundEntry]:
        last, page = self._feed.now().newest.number(pool), AT_ONCE
        while True:
            found = list(journal.read(self._session, range(last + 1, last + 1 + page), pool))
            yield from found
            if len(found) < page:
                return
            last, page = found[-1].number, PAGE

    # -- publishing --

    def give(self, world: World, changed: ChangeSet, taken: TakenEntries) -> None:
        """After the refresh: publish all changes up to the transaction. Raises Unavailable."""
        changes = self._seen.look(world, changed.nodes, changed.kinds, taken.zxid)
        if self._seen.backwards:
            self._begin_anew(self._newest(taken.zxid)[0], RESTORED)
        else:
            self._publish(world, changes, taken)

    def _publish(self, world: World, changes: Sequence[RecordChange], taken: TakenEntries) -> None:
        before = self._feed.now().newest.zxid
        items: list[Item] = []
        for own, group in groupby(map(shown_change, changes), lambda each: each.change.zxid):
            items.append(self._changes_item(own, before, tuple(group)))
        items += self.shown(world, taken.entries)
        items.sort(key=lambda each: (each.zxid, isinstance(each, EntryItem)))
        self._feed.publish(items, taken.zxid)
        self._read = taken.news
        self._again()

    def _changes_item(self, own: int, before: int, group: tuple[ShownChange, ...]) -> ChangesItem:
        """Those of one transaction; deletions, of which only the end is known, are shown before it."""
        if own:
            return ChangesItem(own, own, group)
        return ChangesItem(before, self._session.last_zxid, group)

    def shown(self, world: World, found: Sequence[tuple[bool, FoundEntry]]) -> list[EntryItem]:
        """Entries for streams, without the values that roles declare as secret."""
        secret = partial(concealing.covers, concealing.of_world(world))
        made = []
        for pool, each in found:
            if each.entry is not None:
                record = entries.concealed(each.entry, secret)
                row = EntryRow(number=each.number, record=record, pool=pool or msgspec.UNSET)
                made.append(entry_item(row, each.zxid, each.made))
        return made

    def _again(self) -> None:
        if self._seen.waiting or self._news != self._read:
            self._wake()
