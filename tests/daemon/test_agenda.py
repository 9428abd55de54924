"""Appointments: one for each matter, the earliest, met once."""

from __future__ import annotations

from nodepool_ocb.daemon.agenda import Agenda


def test_of_two_appointments_for_a_matter_the_earlier_counts_whichever_was_made_first() -> None:
    agenda = Agenda[str]()
    agenda.at(5.0, "a")
    agenda.at(3.0, "a")
    agenda.at(2.0, "b")
    agenda.at(9.0, "b")
    assert list(agenda.due(2.9)) == ["b"]
    assert list(agenda.due(10.0)) == ["a"]
    assert list(agenda.due(10.0)) == []


def test_a_matter_that_was_met_can_be_met_again() -> None:
    agenda = Agenda[str]()
    agenda.at(1.0, "a")
    assert list(agenda.due(1.0)) == ["a"]
    agenda.at(2.0, "a")
    assert list(agenda.due(2.0)) == ["a"]


def test_matters_that_are_due_together_are_met_in_the_order_in_which_they_were_made() -> None:
    agenda = Agenda[object]()
    first, second = object(), object()  # that cannot be compared
    agenda.at(1.0, first)
    agenda.at(1.0, second)
    assert list(agenda.due(1.0)) == [first, second]


def test_it_says_how_long_to_wait() -> None:
    agenda = Agenda[str]()
    assert agenda.seconds(0.0, at_most=60.0) == 60.0
    agenda.at(10.0, "a")
    assert agenda.seconds(4.0, at_most=60.0) == 6.0
    assert agenda.seconds(4.0, at_most=1.0) == 1.0
    assert agenda.seconds(12.0, at_most=60.0) == 0.0


def test_an_appointment_that_was_replaced_does_not_bring_the_next_one_forward() -> None:
    agenda = Agenda[str]()
    agenda.at(9.0, "a")
    agenda.at(2.0, "a")
    assert list(agenda.due(3.0)) == ["a"]
    agenda.at(20.0, "a")
    assert list(agenda.due(10.0)) == []
    assert list(agenda.due(20.0)) == ["a"]
