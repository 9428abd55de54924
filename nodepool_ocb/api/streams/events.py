"""``GET /v1/events``: entries of the journal and changes of records as server-sent events.

Each stream reads the feed at its own pace. It ends with its token, and when the server ends; a client goes on at any server,
with the id of its last event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.response import Stream

from nodepool_ocb.api.actor import Actor, require_right
from nodepool_ocb.api.feed.cursor import text
from nodepool_ocb.api.feed.items import EntryItem, EventFilter, Item
from nodepool_ocb.api.feed.ring import FeedTaken, behind, missing
from nodepool_ocb.api.memory.places import RequestPlace
from nodepool_ocb.api.requests import Desk
from nodepool_ocb.api.streams import wanted
from nodepool_ocb.api.streams.resuming import PAGE, RESTORED, StreamStart, start
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.operations.deployments.pausing import RestoredCluster
from nodepool_ocb.operations.history.reading import EventsChoose
from nodepool_ocb.operations.limits.narrowing import names_within

MEDIA_TYPE: Final = "text/event-stream"
HEARTBEAT_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 60.0  # at its token; a change of that is seen at once
AT_ONCE: Final = 64  # items of the feed
PIECE_BYTES: Final = 64 * 1024


async def events(desk: Desk, request: Request[Any, Any, Any]) -> Response[Any]:
    """The handler; raises the errors of a refusal before the first event."""
    actor = await desk.actor(request)
    require_right(actor, EventsChoose)
    query = wanted.asked(request, actor)
    place, deadline = desk.places.take(actor.id), desk.deadline()
    with place:
        begun = await desk.run(lambda: start(desk.records, query.since, deadline), deadline)
        stream = EventStream(desk, actor, query.filter, begun)
        await stream.look()
        place.shared()  # ``_at`` leaves it
    return Stream(_at(place, stream.pieces()), media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})


async def _at(place: RequestPlace, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces; the place is free behind the last one."""
    with place:
        async for piece in pieces:
            yield piece


class EventStream:
    """One client."""

    def __init__(self, desk: Desk, actor: Actor, filter: EventFilter, begun: StreamStart) -> None:
        self._desk, self._actor, self._filter, self._begun = desk, actor, filter, begun
        self._records, self._feed = desk.records, desk.records.feed
        self._cursor = begun.cursor
        self._position = begun.position
        self._of_token = self._feed.of_token(actor.id)
        self._looked = time.monotonic()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes of the stream."""
        lost = self._begun.lost
        yield self._said("reset", lost) if lost is not None else self._said("begin", None)
        while page := await self._desk.run(lambda: list(islice(self._begun.older, PAGE)), self._desk.deadline()):
            yield b"".join(map(self._shown, page))
        while not self._feed.closed:
            news = self._feed.news()
            if not await self._allowed():
                yield self._said("end", "the token is revoked, or has ended")
                return
            taken = self._feed.take(self._position, AT_ONCE)
            if taken.items and self._filter.selected is not None:
                await self.look()
            for piece in self._of(taken):
                yield piece
            if taken.newest is not None and not await self._awaited(news):
                yield f": {self._records.zxid}\nid: {text(self._cursor)}\n\n".encode()

    def _of(self, taken: FeedTaken) -> Iterator[bytes]:
        """The pieces for items of the feed."""
        if taken.lost is not None:
            assert taken.newest is not None, "the position is that of the end"
            self._cursor, self._position = taken.newest, taken.position
            yield self._said("reset", taken.lost)
            return
        parts, size = [], 0
        for at, item in enumerate(taken.items, self._position):
            if at >= self._begun.until or missing(self._cursor, item):
                part = self._shown(item)
                parts.append(part)
                size += len(part)
            if size > PIECE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        self._position = taken.position
        if parts and size:
            yield b"".join(parts)
        if taken.newest is not None:
            self._cursor = taken.newest

    def _shown(self, item: Item) -> bytes:
        """An item as an event; empty if it has no place in this stream."""
        self._cursor = behind(self._cursor, item)
        if isinstance(item, EntryItem):
            shown = self._event("entry", item.data) if self._filter.has_entry(item) else b""
            return shown + self._said("reset", RESTORED) if item.entry.verb == RestoredCluster.noun else shown
        own = [data for each in item.changes if (data := self._filter.of_change(each)) is not None]
        return self._event("state", b'{"zxid":%d,"changes":[%b]}' % (item.zxid, b",".join(own))) if own else b""

    def _event(self, name: str, data: bytes) -> bytes:
        return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), text(self._cursor).encode(), data)

    def _said(self, name: str, reason: str | None) -> bytes:
        """An event of the stream itself; lists of at least its zxid lead to the events that follow."""
        return self._event(name, msgspec.json.encode({"zxid": self._cursor.zxid, "reason": reason}))

    async def _awaited(self, news: asyncio.Event) -> bool:
        """Wait for a change; False if a heartbeat is due first."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS if self._left is None else min(HEARTBEAT_SECONDS, self._left)):
                await news.wait()
        except TimeoutError:
            return False
        return True

    @property
    def _left(self) -> float | None:
        """The seconds until the token ends."""
        expires = self._actor.token.expires
        return None if expires is None else max(0.0, expires - self._records.now())

    # -- rights --

    async def _allowed(self) -> bool:
        """Whether the token is still valid; it is looked at after its changes, at its end, and now and then."""
        changes, now = self._feed.of_token(self._actor.id), time.monotonic()
        ended = self._actor.token.ended(self._records.now())
        if ended or (changes == self._of_token and now < self._looked + LOOK_SECONDS):
            return not ended
        actor = self._actor
        try:
            valid = await self._desk.run(lambda: self._desk.still_valid(actor), self._desk.deadline())
        except Unavailable:
            return False
        self._of_token, self._looked = changes, now
        return valid

    async def look(self) -> None:
        """Find the objects within the selector of the token again."""
        selected, inside = self._filter.selected, self._actor.limits
        if selected is None or inside is None:
            return

        def find() -> frozenset[str]:
            with self._records.reading() as world:
                return names_within(world, inside)

        selected.look(await self._desk.run(find, self._desk.deadline()))
