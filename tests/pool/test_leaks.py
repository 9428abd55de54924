"""A leak is a machine of this cluster without a record, in two listings."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.pool.idle.leaks import LEAK_SECONDS, LeakSightings, MachineMark, leaked, sighted
from tests.pool.poolworld import NOW, node

OURS = MachineMark(external_id="m1", cluster="c", provider="cloud", node="0000000005", key="k1")
RECORD = node("5", "small", driver_data={"key": "k1"})


def test_a_machine_with_its_record_is_none() -> None:
    assert leaked([OURS], [RECORD], "c", "cloud") == []


def test_a_machine_without_a_record_is_one() -> None:
    assert leaked([OURS], [], "c", "cloud") == [OURS]


def test_a_machine_of_another_attempt_of_the_same_id_is_one() -> None:
    assert leaked([replace(OURS, key="old")], [RECORD], "c", "cloud") == [replace(OURS, key="old")]


@pytest.mark.parametrize("facts", [None, {"key": None}, {"key": "k1", "attempt": "third"}], ids=str)
@pytest.mark.parametrize(("external_id", "leak"), [("m1", False), (None, False), ("m2", True)])
def test_a_record_with_damaged_facts_keeps_its_machine(facts: object, external_id: str | None, leak: bool) -> None:
    damaged = node("5", "small", driver_data=facts, external_id=external_id)
    assert leaked([OURS], [damaged], "c", "cloud") == ([OURS] if leak else [])


@pytest.mark.parametrize(
    "other", [{"cluster": "other"}, {"cluster": None}, {"provider": "another"}, {"key": ""}], ids=str
)
def test_a_machine_of_others_is_left_alone(other: dict[str, str | None]) -> None:
    assert leaked([replace(OURS, **other)], [], "c", "cloud") == []


def test_a_leak_is_confirmed_by_a_second_listing() -> None:
    once = sighted(LeakSightings(), [OURS], NOW)
    assert once.confirmed == ()
    assert sighted(once, [OURS], NOW + LEAK_SECONDS - 1).confirmed == ()
    assert sighted(once, [OURS], NOW + LEAK_SECONDS).confirmed == (OURS,)


def test_a_leak_that_vanished_begins_anew() -> None:
    gone = sighted(sighted(LeakSightings(), [OURS], NOW), [], NOW + 30)
    assert sighted(gone, [OURS], NOW + LEAK_SECONDS).confirmed == ()
