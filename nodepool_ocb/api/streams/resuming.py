"""Where a stream of events begins: at the present, or behind the last event that its client has.

Any server goes on where another one stopped. If it cannot show all that came since, it says so, and the client lists again. The
entries of the journal go on in any case, as far as they are kept.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import EntryItem
from nodepool_ocb.api.feed.ring import FeedMoment
from nodepool_ocb.api.records import ServedRecords
from nodepool_ocb.errors import Conflict

PAGE: Final = 100  # entries that are read at a time
RESTORED: Final = "the numbers of ZooKeeper went back: it was restored from an older copy"
OLD: Final = "this server does not keep the changes since this event"


class StreamStart(msgspec.Struct, frozen=True):
    """``older``: the entries that come before those of the feed; ``lost``: why the client has to list again."""

    position: int
    until: int  # items before this position may be known to the client
    cursor: EventCursor
    older: Iterator[EntryItem]
    lost: str | None


def start(records: ServedRecords, since: EventCursor | None, deadline: float) -> StreamStart:
    """Where to begin; on a thread that may wait. Raises Unavailable and TimedOut."""
    if since is None:
        moment = records.feed.now()
        return StreamStart(moment.end, moment.end, moment.newest, iter(()), None)
    lost = None
    try:
        records.catch_up(None if since.zxid < 0 else since.zxid, deadline)
    except Conflict:
        lost = RESTORED
    moment = records.feed.now()
    if lost or any(_differs(records, since, moment, pool) for pool in (False, True)):
        return StreamStart(moment.end, moment.end, moment.newest, iter(()), RESTORED)
    cursor = since
    if since.zxid < 0:
        cursor = replace(since, zxid=moment.newest.zxid)
    elif since.zxid < moment.base.zxid:
        cursor, lost = replace(since, zxid=moment.newest.zxid), OLD
    gaps = [_gap(records, cursor, moment, pool) for pool in (False, True)]
    older = heapq.merge(*(_older(records, cursor, moment, pool) for pool in (False, True)), key=lambda each: each.zxid)
    return StreamStart(moment.first, moment.end, cursor, older, next((each for each in gaps if each is not None), lost))


def _differs(records: ServedRecords, since: EventCursor, moment: FeedMoment, pool: bool) -> bool:
    """Whether the last entry that the client has is not that of this journal."""
    number, mark = since.number(pool), since.mark(pool)
    if number > moment.newest.number(pool):
        return True
    if number < 0 or mark < 0:
        return False
    return records.time_of_entry(number, pool) not in (None, mark)


def _gap(records: ServedRecords, since: EventCursor, moment: FeedMoment, pool: bool) -> str | None:
    """Why entries after the last one of the client cannot be shown."""
    number = since.number(pool)
    if number >= moment.base.number(pool):
        return None
    first = records.kept_entries(number, 1, pool).first
    if first is not None and first == number + 1:
        return None
    return f"{'entries of launchers' if pool else 'entries'} after number {number} are not kept any more"


def _older(records: ServedRecords, since: EventCursor, moment: FeedMoment, pool: bool) -> Iterator[EntryItem]:
    """The entries behind those of the client, up to the first one of the feed."""
    number, end = since.number(pool), moment.base.number(pool)
    while number < end:
        page = records.kept_entries(number, min(PAGE, end - number), pool)
        yield from (each for each in page.items if each.number <= end)
        if page.reached == number:
            return
        number = page.reached
