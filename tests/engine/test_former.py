"""What older runs were given is found again from what each run noted of the one before it."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.engine.inputs import former, kept, of_instant, of_runs
from nodepool_ocb.engine.inputs.former import MOST_BYTES, NOT_KEPT, TOO_MUCH, UNREADABLE
from nodepool_ocb.model.records import Former, Given, NodeRole, Run, State
from tests.fixtures.examples import examples

INSTANT = of_instant("noop")
Runs = list[tuple[str, Run]]

_leaves = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, "a", "b"])
_json = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
_maps = st.dictionaries(st.sampled_from("abc"), _json, max_size=3)
_givens = st.builds(
    Given,
    jig=st.sampled_from(["script", "test"]),
    script=st.sampled_from([None, "1", "2"]),
    attributes=_maps,
    beside=_maps,
    reason=st.sampled_from([None, None, None, "it was taken over"]),
)


def number_of(each: Given) -> int:
    return 2 + zlib.crc32(msgspec.json.encode(each, order="sorted"))


def succeeded(number: int, noted: Former | None = None) -> Run:
    return Run(
        annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1, given=number, former=noted
    )


def recorded(history: list[tuple[int, Given]]) -> Runs:
    """The runs that were given these, under these numbers, the oldest first; those numbered 0 had nothing to run."""
    runs: Runs = []
    last, number = None, 0
    for place, (mine, now) in enumerate(history):
        noted = former(now, last or Given(jig=now.jig), number) if number and mine and mine != number else None
        runs.append((f"{place:010d}-x", succeeded(mine, noted)))
        last, number = (now if mine else last), mine or INSTANT
    return runs


def found(history: list[tuple[int, Given]], runs: Runs, number: int | None = None) -> dict[str, Given]:
    newest = next((now for mine, now in reversed(history) if mine), None)
    record = NodeRole(state=State.ACTIVE, since=0.0, given=history[-1][0] or INSTANT if number is None else number)
    return of_runs(record, newest, reversed(runs))


def same(one: Any, other: Any) -> bool:
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


@examples(60, long=200)
@given(st.lists(st.tuples(st.booleans(), _givens), min_size=1, max_size=8))
def test_of_any_history_each_run_is_found_as_it_was(drawn: list[tuple[bool, Given]]) -> None:
    """Also where runs that had nothing to run stand between."""
    first_ran = [(ran or place == 0, now) for place, (ran, now) in enumerate(drawn)]
    history = [(number_of(now) if ran else 0, now) for ran, now in first_ran]
    runs = recorded(history)
    read = [(name, msgspec.json.decode(msgspec.json.encode(run), type=Run)) for name, run in runs]
    for (name, _), (mine, now) in zip(runs, history, strict=True):
        wanted = now if mine else Given(jig="", reason=NOT_KEPT)
        assert same(msgspec.to_builtins(found(history, read)[name]), msgspec.to_builtins(wanted)), name


def plain(*values: Any) -> list[tuple[int, Given]]:
    return [(number, Given(jig="script", attributes={"a": value})) for number, value in enumerate(values, start=10)]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_behind_a_run_whose_record_is_gone_nothing_is_known(lost: int) -> None:
    """The numbers tell: what it noted would have to be undone first."""
    history = plain(1, 2, 3, 4)
    runs = recorded(history)
    del runs[lost]
    known = [each.reason is None for each in reversed(found(history, runs).values())]
    assert known == [place > lost for place in range(4) if place != lost]
    assert {each.reason for each in found(history, runs).values()} <= {None, UNREADABLE}


def test_what_is_kept_is_of_no_run_that_is_older_than_it() -> None:
    history = plain(1, 2)
    assert {each.reason for each in found(history, recorded(history)[:1]).values()} == {UNREADABLE}


def test_behind_a_change_that_was_too_large_to_note_nothing_is_known_and_it_says_so() -> None:
    history = plain(1, ["x" * 100] * (MOST_BYTES // 100), 3, 4)
    runs = recorded(history)
    assert len(msgspec.json.encode(runs[2][1])) < 1000
    assert [each.reason for each in found(history, runs).values()] == [None, None, TOO_MUCH, TOO_MUCH]


def test_what_a_spoiled_record_notes_is_not_believed() -> None:
    history = plain(1, 2)
    for noted in (
        Former(given=10, gone=(("attributes", "b"),)),
        Former(given=10, changes=((("attributes", "a", "b"), 1),)),
        Former(given=10, changes=((("attributes",), 1),)),
    ):
        runs = recorded(history)
        runs[1] = runs[1][0], succeeded(11, noted)
        assert [each.reason for each in found(history, runs).values()] == [None, UNREADABLE]


def test_a_run_notes_little_where_little_changed() -> None:
    many = {str(number): "x" * 50 for number in range(500)}
    noted = former(Given(jig="script", attributes=many), Given(jig="script", attributes={**many, "7": "y"}), 10)
    assert noted == Former(given=10, changes=((("attributes", "7"), "y"),))
    assert kept(Given(jig="script", attributes=many)) is not None


def test_a_secret_is_noted_whole_so_that_it_is_hidden_wherever_it_is_shown() -> None:
    one, other = ({"a": {"$secret": f"id:{each}"}} for each in "12")
    noted = former(Given(jig="script", attributes=other), Given(jig="script", attributes=one), 10)
    assert noted.changes == ((("attributes", "a"), one["a"]),)


def test_behind_a_run_of_an_earlier_version_nothing_is_known() -> None:
    history = plain(1, 2, 3)
    runs = recorded(history)
    runs[1] = runs[1][0], succeeded(0)
    assert [each.reason for each in found(history, runs).values()] == [None, NOT_KEPT, UNREADABLE]
