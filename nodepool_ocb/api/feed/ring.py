"""The latest events, for all streams of a server: a buffer of bounded size that each stream reads at its own pace.

A stream keeps a position and no events. So a client that takes nothing costs no memory here: the buffer passes it by, and it has
to list again. The turn thread publishes; streams read on the loop of the server.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

import msgspec

from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import ChangesItem, EntryItem, Item

MOST_ITEMS: Final = 20_000
MOST_BYTES: Final = 16 << 20
TOO_SLOW: Final = "this client did not take the events in time"


class FeedTaken(msgspec.Struct, frozen=True):
    """The next items from a position, and the position behind them. ``lost``: why there is a gap before them.

    ``newest``: the cursor of a client that has these; None if there are more.
    """

    items: Sequence[Item]
    position: int
    newest: EventCursor | None
    lost: str | None = None


class FeedMoment(msgspec.Struct, frozen=True):
    """The feed at one moment: the positions of its first item and behind its last, and what each item is newer than."""

    first: int
    end: int
    base: EventCursor  # all events of transactions behind it are in the buffer, and all entries above its numbers
    newest: EventCursor


class EventFeed:
    """Thread-safe."""

    def __init__(self, most_items: int = MOST_ITEMS, most_bytes: int = MOST_BYTES) -> None:
        self._most_items, self._most_bytes = most_items, most_bytes
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._first = 0
        self._base = self._newest = EventCursor()
        self._torn = ""  # why everything before ``_first`` is void
        self._torn_at = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._tokens: Counter[str] = Counter()  # how often each may have changed
        self.closed = False

    # -- on the turn thread --

    def begin(self, now: EventCursor, torn: str = "") -> None:
        """Void all before: the feed begins here. ``torn``: why streams have to list again."""
        with self._lock:
            self._first += len(self._items) + 1  # no stream is at this position
            self._items.clear()
            self._bytes = 0
            self._base = self._newest = now
            self._torn, self._torn_at = torn, self._first
        self._call()

    def publish(self, items: Sequence[Item], zxid: int) -> None:
        """Add items, in the order of their transactions; all changes up to ``zxid`` are known now."""
        with self._lock:
            for item in items:
                self._items.append(item)
                self._bytes += item.size
                self._newest = behind(self._newest, item)
            self._newest = self._newest.after_changes(zxid)
            while self._items and (len(self._items) > self._most_items or self._bytes > self._most_bytes):
                self._drop()
        if items:
            self._call()

    def _drop(self) -> None:
        item = self._items.popleft()
        self._first += 1
        self._bytes -= item.size
        self._base = behind(self._base, item)
        if isinstance(item, ChangesItem):
            self._base = self._base.after_changes(item.until)

    def token_changed(self, id: str = "") -> None:
        """A token was revoked or used, perhaps: its streams look at it. Without an id: any token."""
        self._tokens[id] += 1
        self._call()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._call()

    def _call(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._tell)

    # -- on the loop --

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def news(self) -> asyncio.Event:
        """An event that is set by the next change. Ask for it before you ``take``."""
        self._loop = asyncio.get_running_loop()
        if self._news is None:
            self._news = asyncio.Event()
        return self._news

    # -- on any thread --

    def of_token(self, id: str) -> int:
        """A number that rises when the token may have changed."""
        return self._tokens[""] + self._tokens.get(id, 0)

    def now(self) -> FeedMoment:
        """Where it stands."""
        with self._lock:
            return FeedMoment(self._first, self._first + len(self._items), self._base, self._newest)

    def take(self, position: int, most: int) -> FeedTaken:
        """The next items, at most as many; with ``lost``, none of them, and the position of the end."""
        with self._lock:
            end = self._first + len(self._items)
            if position < self._first:
                torn = self._torn if position < self._torn_at else ""
                return FeedTaken((), end, self._newest, torn or TOO_SLOW)
            start = position - self._first
            found = tuple(self._items[each] for each in range(start, min(start + most, len(self._items))))
            after = position + len(found)
            return FeedTaken(found, after, self._newest if after == end else None)


def behind(cursor: EventCursor, item: Item) -> EventCursor:
    """The cursor of a client that has this item, too."""
    if isinstance(item, EntryItem):
        return cursor.after_entry(item.number, item.made, item.pool)
    return cursor.after_changes(item.zxid)


def missing(cursor: EventCursor, item: Item) -> bool:
    """Whether a client at this cursor has not seen the item, or may have missed a part of it."""
    if isinstance(item, EntryItem):
        return item.number > cursor.number(item.pool)
    return item.until > cursor.zxid
