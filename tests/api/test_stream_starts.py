"""Where a stream of events begins, and the query that asks for it: over a small journal in place of ZooKeeper's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from litestar.datastructures import MultiDict

from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.feed.cursor import EventCursor
from nodepool_ocb.api.feed.items import EntryItem, entry_item
from nodepool_ocb.api.feed.ring import EventFeed
from nodepool_ocb.api.memory.places import RequestPlaces
from nodepool_ocb.api.records import KeptEntries
from nodepool_ocb.api.streams import events, wanted
from nodepool_ocb.api.streams.resuming import OLD, PAGE, RESTORED, StreamStart, start
from nodepool_ocb.errors import Conflict, Invalid, Unavailable
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.views.history.entries import EntryRow

ZXID: Final = 1000  # of entry 0; each entry has a transaction of its own


def entry(number: int, pool: bool) -> EntryItem:
    record = Entry(at=1.0, login="ann", host="desk", verb="node set", subjects=("n1",))
    return entry_item(EntryRow(number=number, record=record, pool=pool), ZXID + 2 * number + pool, made(number))


def made(number: int) -> int:
    return 100 * number + 1


class SmallJournal:
    """Records with the entries ``kept`` (people's, launchers'), of which a buffer of ``buffered`` has the newest."""

    def __init__(self, kept: tuple[range, range], buffered: int = 2) -> None:
        self.kept, self.caught_up = kept, list[int | None]()
        self.feed = EventFeed(most_items=buffered)
        self.feed.begin(EventCursor(zxid=ZXID - 1))
        items = [entry(each, bool(pool)) for pool, numbers in enumerate(kept) for each in numbers]
        for item in sorted(items, key=lambda each: each.zxid):
            self.feed.publish([item], item.zxid)

    def catch_up(self, zxid: int | None, _deadline: float) -> None:
        self.caught_up.append(zxid)
        if zxid is not None and zxid > self.feed.now().newest.zxid:
            raise Conflict("this cluster has not reached it")

    def kept_entries(self, after: int, most: int, pool: bool) -> KeptEntries:
        page = [each for each in self.kept[pool] if each > after][:most]
        return KeptEntries([entry(each, pool) for each in page], page[0] if page else None, page[-1] if page else after)

    def time_of_entry(self, number: int, pool: bool) -> int | None:
        assert number >= 0, "no entry has this number"
        return made(number) if number in self.kept[pool] else None

    def start(self, since: EventCursor | None) -> StreamStart:
        records: Any = self
        return start(records, since, 0.0)


def numbers(found: StreamStart, pool: bool = False) -> list[int]:
    return [each.number for each in found.older if each.pool is pool]


@pytest.mark.parametrize("pool", [False, True], ids=["people", "launchers"])
@pytest.mark.parametrize(
    ("last", "gap"), [(2, True), (3, True), (4, False), (7, False), (9, False)]
)  # 5 is the first that is kept, and 8 the first of the buffer
def test_a_gap_in_the_entries_behind_the_last_one_of_a_client_is_told(last: int, gap: bool, pool: bool) -> None:
    kept = (range(0), range(5, 10)) if pool else (range(5, 10), range(0))
    records = SmallJournal(kept)
    newest = records.feed.now().newest
    since = EventCursor(zxid=newest.zxid, **{"pool" if pool else "entry": last})
    found = records.start(since)
    word = "entries of launchers" if pool else "entries"
    assert found.lost == (f"{word} after number {last} are not kept any more" if gap else None)
    assert numbers(found, pool) == [each for each in range(5, 8) if each > last], "the others are in the buffer"


def test_entries_that_are_all_gone_are_a_gap_too() -> None:
    records = SmallJournal((range(5, 10), range(0)))
    records.kept = (range(0), range(0))
    since = EventCursor(entry=4, zxid=records.feed.now().newest.zxid)
    assert records.start(since).lost == "entries after number 4 are not kept any more"


def test_the_entries_of_both_journals_come_page_by_page_in_the_order_of_their_transactions() -> None:
    records = SmallJournal((range(2 * PAGE + 5), range(PAGE + 5)), buffered=1)
    found = records.start(EventCursor(entry=1, pool=3, zxid=records.feed.now().newest.zxid))
    older = list(found.older)
    assert found.lost is None
    assert [each.zxid for each in older] == sorted(each.zxid for each in older)
    assert [each.number for each in older if each.pool] == [*range(4, PAGE + 5)]
    assert [each.number for each in older if not each.pool] == [*range(2, 2 * PAGE + 4)], "the last is in the buffer"


def test_entries_that_are_deleted_while_a_client_reads_them_end_its_reading() -> None:
    records = SmallJournal((range(10), range(0)))
    found = records.start(EventCursor(entry=0, zxid=records.feed.now().newest.zxid))
    records.kept = (range(0), range(0))
    assert list(found.older) == []


def test_a_page_that_was_written_meanwhile_does_not_repeat_the_entries_of_the_buffer() -> None:
    records = SmallJournal((range(10), range(0)))
    read = records.kept_entries
    records.kept_entries = lambda after, _most, pool: read(after, PAGE, pool)  # type: ignore[method-assign]
    assert numbers(records.start(EventCursor(entry=0, zxid=records.feed.now().newest.zxid))) == [*range(1, 8)]


@pytest.mark.parametrize(
    ("since", "lost"),
    [
        pytest.param(EventCursor(entry=9, zxid=9999), RESTORED, id="a transaction that the cluster has not reached"),
        pytest.param(EventCursor(entry=10), RESTORED, id="an entry that the journal has not reached"),
        pytest.param(EventCursor(pool=1), RESTORED, id="an entry of launchers that it has not reached"),
        pytest.param(EventCursor(entry=7, entry_made=made(8)), RESTORED, id="an entry of another time"),
        pytest.param(EventCursor(entry=7, entry_made=made(7)), None, id="the same entry"),
        pytest.param(EventCursor(entry=4, entry_made=7), None, id="an entry that is not kept"),
        pytest.param(EventCursor(entry=7), None, id="an entry of an unknown time"),
        pytest.param(EventCursor(entry=7, pool_made=7), None, id="a time of no entry"),
        pytest.param(EventCursor(entry=9, zxid=1), OLD, id="changes that the buffer has passed"),
    ],
)
def test_a_client_with_events_of_another_time_or_of_long_ago_lists_again(since: EventCursor, lost: str | None) -> None:
    records = SmallJournal((range(5, 10), range(0)))
    newest = records.feed.now().newest
    found = records.start(since)
    assert (found.lost, found.cursor.zxid) == (lost, newest.zxid)
    assert (found.cursor.entry == newest.entry) == (lost == RESTORED or since.entry == newest.entry)
    assert (found.position == found.until) == (lost == RESTORED), "nothing of before"
    assert records.caught_up == [None if since.zxid < 0 else since.zxid]


def test_a_stream_without_a_place_begins_with_the_present() -> None:
    records = SmallJournal((range(10), range(0)))
    found = records.start(None)
    moment = records.feed.now()
    assert (found.position, found.cursor, [*found.older], found.lost) == (moment.end, moment.newest, [], None)
    assert records.caught_up == [], "it waits for nothing"


# -- the query --


def asked(query: list[tuple[str, str]], last: str | None = None, **limits: Any) -> Any:
    token = Token(name="ann", role=TokenRole.VIEWER, digest="0" * 64, **limits)
    request: Any = SimpleNamespace(
        query_params=MultiDict(query), headers={} if last is None else {"last-event-id": last}
    )
    return wanted.asked(request, Actor(id="00000000002a", token=token, address="::1"))


def test_the_last_event_of_a_client_goes_before_the_place_in_its_address() -> None:
    assert asked([("since", "5")]).since == EventCursor(entry=5)
    assert asked([("since", "5")], last="7").since == EventCursor(entry=7)
    assert asked([("since", "5")], last="").since == EventCursor(entry=5)
    assert asked([]).since is None


def test_the_limits_of_a_token_stand_in_its_filter_beside_the_wishes_of_the_client() -> None:
    found = asked(
        [("deployment", "web"), ("deployment", "lab"), ("kind", "node"), ("node", "n1")], deployments=("lab",)
    )
    assert (found.filter.within, found.filter.deployments) == ({"lab"}, {"web", "lab"})
    assert (found.filter.kinds, found.filter.nodes, found.filter.selected) == ({"node"}, {"n1"}, None)
    by_selector = asked([], selector="tag:lab").filter
    assert (by_selector.within, by_selector.selected is None) == (None, False)
    assert (asked([]).filter.within, asked([]).filter.selected) == (None, None)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ([("colour", "red")], "the fields are: kind, deployment, node, since"),
        ([("kind", "lamp")], "the kinds are: entry, node"),
        (
            [("node", f"n{each}") for each in range(600)] + [("deployment", f"d{each}") for each in range(401)],
            "at most",
        ),
        ([("since", "soon")], "no id of an event"),
    ],
    ids=["field", "kind", "number of values", "place"],
)
def test_a_query_that_no_stream_answers_is_refused(query: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        asked(query)


# -- the place of a stream at its server --


def test_a_place_is_free_behind_the_last_piece_and_when_a_stream_never_begins() -> None:
    places = RequestPlaces(0, "streams of events")
    held = [places.take("a") for _ in range(places.of_token)]
    with pytest.raises(Unavailable, match="token a has 20 streams"):
        places.take("a")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"

    async def read() -> list[bytes]:
        return [each async for each in events._at(held[0], pieces())]

    assert asyncio.run(read()) == [b"one"]
    kept = places.take("a")
    with pytest.raises(Unavailable):
        places.take("a")
    held.pop()  # as if the request had failed before its stream
    assert places.take("a")
    assert kept


def test_a_stream_is_within_the_connections_of_its_server_and_others_have_some() -> None:
    assert [RequestPlaces(each, "streams of events").of_token for each in (0, 80, 1000)] == [20, 20, 250]
