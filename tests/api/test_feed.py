"""The buffer that all event streams of a server share: its bounds, and clients that fall behind."""

from __future__ import annotations

from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import ChangesItem, shown_change
from nodepool_ocb.api.feed.ring import TOO_SLOW, EventFeed, missing
from nodepool_ocb.model.records import Node
from nodepool_ocb.views.history.recordchanges import RecordChange


def item(zxid: int) -> ChangesItem:
    change = RecordChange(
        kind="node",
        name=f"n{zxid}",
        zxid=zxid,
        deployment="lab",
        node=f"n{zxid}",
        state="dead",
        was=None,
        record=Node(),
    )
    return ChangesItem(zxid, zxid, (shown_change(change),))


def test_a_client_that_falls_behind_the_buffer_is_passed_by_and_the_others_miss_nothing() -> None:
    feed = EventFeed(most_items=10)
    feed.begin(EventCursor(zxid=0))
    stuck = fast = feed.now().end
    seen = []
    for zxid in range(1, 101):
        feed.publish([item(zxid)], zxid)
        taken = feed.take(fast, 64)
        fast = taken.position
        seen += [each.zxid for each in taken.items]
    assert seen == list(range(1, 101))
    lost = feed.take(stuck, 64)
    assert (lost.lost, lost.items, lost.position) == (TOO_SLOW, (), fast)
    assert (feed.now().base.zxid, feed.now().end - feed.now().first) == (90, 10)


def test_the_buffer_is_bounded_in_bytes() -> None:
    most = 20 * item(1).size
    feed = EventFeed(most_bytes=most)
    feed.begin(EventCursor(zxid=0))
    for zxid in range(1, 1001):
        feed.publish([item(zxid)], zxid)
    moment = feed.now()
    kept = feed.take(moment.first, 10_000).items
    assert 10 <= len(kept) <= 20
    assert sum(each.size for each in kept) <= most


def test_all_streams_of_the_time_before_a_torn_feed_are_reset() -> None:
    feed = EventFeed()
    feed.begin(EventCursor(zxid=50))
    before = feed.now().end
    feed.publish([item(51)], 51)
    feed.begin(EventCursor(zxid=7), "restored")
    for position in (before, before + 1):
        taken = feed.take(position, 64)
        assert (taken.lost, taken.newest) == ("restored", EventCursor(zxid=7))
    feed.publish([item(8)], 8)
    assert [each.zxid for each in feed.take(feed.now().first, 64).items] == [8]


def test_a_deletion_that_a_client_may_have_missed_is_shown_again() -> None:
    deletion = ChangesItem(10, 20, item(1).changes)
    assert [missing(EventCursor(zxid=zxid), deletion) for zxid in (10, 15, 20)] == [True, True, False]
