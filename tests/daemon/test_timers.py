"""Timers: one for each key, the earliest, given once."""

from __future__ import annotations

from nodepool_ocb.daemon.timers import Timers


def test_of_two_timers_for_a_key_the_earlier_counts_whichever_was_made_first() -> None:
    timers = Timers[str]()
    timers.at(5.0, "a")
    timers.at(3.0, "a")
    timers.at(2.0, "b")
    timers.at(9.0, "b")
    assert list(timers.due(2.9)) == ["b"]
    assert list(timers.due(10.0)) == ["a"]
    assert list(timers.due(10.0)) == []


def test_a_key_that_was_due_can_be_due_again() -> None:
    timers = Timers[str]()
    timers.at(1.0, "a")
    assert list(timers.due(1.0)) == ["a"]
    timers.at(2.0, "a")
    assert list(timers.due(2.0)) == ["a"]


def test_keys_that_are_due_together_are_given_in_the_order_in_which_they_were_made() -> None:
    timers = Timers[object]()
    first, second = object(), object()  # that cannot be compared
    timers.at(1.0, first)
    timers.at(1.0, second)
    assert list(timers.due(1.0)) == [first, second]


def test_it_says_how_long_to_wait() -> None:
    timers = Timers[str]()
    assert timers.seconds(0.0, at_most=60.0) == 60.0
    timers.at(10.0, "a")
    assert timers.seconds(4.0, at_most=60.0) == 6.0
    assert timers.seconds(4.0, at_most=1.0) == 1.0
    assert timers.seconds(12.0, at_most=60.0) == 0.0


def test_a_timer_that_was_replaced_does_not_bring_the_next_one_forward() -> None:
    timers = Timers[str]()
    timers.at(9.0, "a")
    timers.at(2.0, "a")
    assert list(timers.due(3.0)) == ["a"]
    timers.at(20.0, "a")
    assert list(timers.due(10.0)) == []
    assert list(timers.due(20.0)) == ["a"]
