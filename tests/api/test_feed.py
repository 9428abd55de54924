"""The buffer that all event streams of a server share: its bounds, and clients that fall behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import ChangesItem, EntryItem, entry_item, shown_change
from nodepool_ocb.api.feed.ring import TOO_SLOW, EventFeed, missing
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Node
from nodepool_ocb.views.history.entries import EntryRow
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


def entry(number: int, zxid: int, pool: bool = False) -> EntryItem:
    record = Entry(at=1.0, login="ann", host="desk", verb="node set", subjects=("n1",))
    return entry_item(EntryRow(number=number, record=record, pool=pool), zxid, 100 * number)


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


def test_a_feed_that_begins_anew_has_room_for_as_much_as_before() -> None:
    feed = EventFeed(most_bytes=3 * item(10).size)
    for start in (10, 20):
        feed.begin(EventCursor(zxid=start))
        feed.publish([item(start + each) for each in (1, 2, 3)], start + 3)
    assert [each.zxid for each in feed.take(feed.now().first, 64).items] == [21, 22, 23]


def test_the_ends_of_the_buffer_know_the_entries_and_the_transactions_that_were_passed() -> None:
    feed = EventFeed(most_items=1)
    feed.begin(EventCursor(entry=1, pool=1, zxid=10))
    feed.publish([entry(2, 11), entry(5, 12, pool=True)], 13)
    assert feed.now().newest == EventCursor(entry=2, pool=5, zxid=13, entry_made=200, pool_made=500)
    assert feed.now().base == EventCursor(entry=2, pool=1, zxid=10, entry_made=200)
    feed.publish([ChangesItem(13, 20, item(1).changes)], 20)
    feed.publish([item(21)], 21)
    assert feed.now().base.zxid == 20, "a deletion that was passed may be as late as its end"


def test_only_a_client_that_has_all_knows_the_newest_transaction() -> None:
    feed = EventFeed()
    feed.begin(EventCursor(zxid=0))
    feed.publish([item(1), item(2)], 9)
    first = feed.take(feed.now().first, 1)
    assert (len(first.items), first.newest) == (1, None)
    assert feed.take(first.position, 1).newest == EventCursor(zxid=9)


def test_a_client_that_was_passed_after_a_torn_beginning_is_told_so_and_not_of_the_tear() -> None:
    feed = EventFeed(most_items=1)
    feed.begin(EventCursor(zxid=7), "restored")
    position = feed.now().end
    feed.publish([item(8), item(9)], 9)
    assert feed.take(position, 64).lost == TOO_SLOW


def test_an_entry_that_a_client_has_is_not_missing_whichever_journal_it_is_of() -> None:
    cursor = EventCursor(entry=5, pool=2)
    assert [missing(cursor, entry(each, 1)) for each in (5, 6)] == [False, True]
    assert [missing(cursor, entry(each, 1, pool=True)) for each in (2, 3)] == [False, True]


@pytest.mark.parametrize(
    ("act", "wakes"),
    [
        (lambda feed: feed.publish([item(1)], 1), True),
        (lambda feed: feed.publish([], 1), False),
        (lambda feed: feed.begin(EventCursor(zxid=7), "restored"), True),
        (lambda feed: feed.token_changed("a"), True),
        (lambda feed: feed.close(), True),
    ],
    ids=["events", "no event", "a tear", "a token", "the end"],
)
def test_news_wake_each_stream_once(act: Callable[[EventFeed], None], wakes: bool) -> None:
    async def story() -> None:
        feed = EventFeed()
        one, other = feed.news(), feed.news()
        await asyncio.to_thread(act, feed)
        await asyncio.sleep(0)  # the loop runs the call of the other thread, which came before the answer of that
        assert (one.is_set(), other.is_set()) == (wakes, wakes)
        assert feed.news().is_set() is False, "the next change sets another event"

    asyncio.run(story())


def test_a_feed_without_a_stream_or_with_a_loop_that_has_ended_takes_events() -> None:
    async def look(feed: EventFeed) -> None:
        feed.news()

    feed = EventFeed()
    feed.publish([item(1)], 1)
    asyncio.run(look(feed))
    feed.publish([item(2)], 2)
    feed.close()
    assert (feed.now().newest.zxid, feed.closed) == (2, True)


def test_a_stream_looks_at_its_own_token_and_at_a_change_of_any_token() -> None:
    feed = EventFeed()
    before = feed.of_token("a")
    feed.token_changed("b")
    assert feed.of_token("a") == before
    feed.token_changed("a")
    assert feed.of_token("a") == before + 1
    feed.token_changed()
    assert feed.of_token("a") == before + 2
