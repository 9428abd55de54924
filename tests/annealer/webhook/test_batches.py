"""What one request to a receiver of the webhook has, what is missed, and when it is tried again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.model.journal import Effect, Entry, FieldChange
from nodepool_ocb_annealer.webhook import batches
from nodepool_ocb_annealer.webhook.batches import EntryBatch, batch, body, wait_seconds
from tests.annealer.webhook.posters import entry


def found(*numbers: int) -> list[tuple[int, Entry | None, str]]:
    return [(number, entry(f"n{number}.example.com"), "") for number in numbers]


def numbers_in(made: EntryBatch) -> list[int]:
    return [each["number"] for each in json.loads(body("c", made))["entries"]]


def test_a_batch_has_what_was_found_and_nothing_is_missed_where_no_number_is() -> None:
    made = batch(4, [5, 6, 7], found(5, 6, 7))
    assert (numbers_in(made), made.last, made.missed) == ([5, 6, 7], 7, 0)


def test_what_was_deleted_before_in_between_or_at_the_end_is_missed() -> None:
    assert (batch(4, [9, 10], found(9, 10)).missed, batch(4, [5, 6, 7], found(5, 7)).missed) == (4, 1)
    late = batch(4, [5, 6, 7], found(5))
    assert (late.last, late.missed) == (7, 2)
    gone = batch(4, [5, 6], [])
    assert (numbers_in(gone), gone.last, gone.missed) == ([], 6, 2)


def test_what_cannot_be_read_is_passed_over_missed_and_named() -> None:
    made = batch(4, [5, 6], [(5, None, "not an Entry"), *found(6)])
    assert (numbers_in(made), made.last, made.missed, made.problems) == ([6], 6, 1, ("not an Entry",))


def test_a_batch_ends_where_its_bytes_do_and_one_entry_goes_however_large_it_is() -> None:
    large = entry(*(f"n{number}.example.com" for number in range(10)), reason="x" * (batches.MOST_BYTES // 2 - 400))
    made = batch(4, [5, 6, 7, 8], [(5, large, ""), (6, large, ""), (7, large, ""), (8, large, "")])
    assert (numbers_in(made), made.last, made.missed) == ([5, 6], 6, 0)
    assert len(body("c", made)) <= batches.MOST_BYTES + 200
    larger = entry(reason="x" * 2 * batches.MOST_BYTES)
    made = batch(4, [5, 6], [(5, larger, ""), *found(6)])
    assert (numbers_in(made), made.last) == ([5], 5)


@given(
    st.integers(-1, 30),
    st.lists(st.sampled_from(["kept", "deleted", "garbage", "late"]), max_size=40),
    st.integers(1, 7),
)
def test_each_entry_is_sent_once_or_counted_as_missed(delivered: int, fates: list[str], most: int) -> None:
    """Batch after batch; late: deleted between the list and the reading."""
    first = delivered + 1
    listed = [first + offset for offset, fate in enumerate(fates) if fate != "deleted"]
    sent: list[int] = []
    missed, at = 0, delivered
    while left := [number for number in listed if number > at]:
        asked = left[:most]
        there = [number for number in asked if fates[number - first] != "late"]
        made = batch(at, asked, [(n, entry() if fates[n - first] == "kept" else None, "garbage") for n in there])
        assert made.last > at
        sent, missed, at = sent + numbers_in(made), missed + made.missed, made.last
    assert sent == [number for number in listed if fates[number - first] == "kept"]
    assert len(sent) + missed == (listed[-1] - delivered if listed else 0)


def test_an_entry_stands_as_history_prints_it_with_no_secret_in_it() -> None:
    effect = Effect(change="change", kind="node", name="n1", fields=(FieldChange(field="a", new={"$secret": "enc:x"}),))
    text = body("c", batch(0, [1], [(1, entry("n1", changes=(effect,)), "")])).decode()
    shown = json.loads(text)["entries"][0]
    assert list(shown)[:5] == ["number", "at", "login", "host", "verb"]
    assert shown["changes"][0]["fields"] == [{"field": "a", "new": "(secret)"}]
    assert "enc:x" not in text


def test_waits_double_to_five_minutes_and_hosts_do_not_wait_alike() -> None:
    waits = [wait_seconds(failures, 0.5) for failures in range(1, 20)]
    assert waits[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert max(waits) == waits[-1] == 300.0
    assert wait_seconds(3, 0.0) < wait_seconds(3, 0.7) < wait_seconds(3, 1.0)
