"""The same order given to the jig again: the first call learnt no end of the run, and the machine lost its memory of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from nodepool_ocb.jigs import Detached, Lost, Order, Succeeded, Unreachable
from nodepool_ocb.jigs.script import ScriptJig
from nodepool_ocb.jigs.ssh.link import Link
from tests.jigs.workshop import Annealer, until


class Telling(ScriptJig):
    """Knows the run of the newest order that it sent."""

    sent = ""

    def beside(self, order: Order, link: Link) -> AbstractContextManager[object]:
        self.sent = order.run
        return super().beside(order, link)


@pytest.fixture
def annealer(machine: Any) -> Iterator[Annealer]:
    """One that soon gives up on a machine."""
    one = Annealer(machine.settings(connect_timeout_seconds=1.0), Telling)
    yield one
    one.jig.close()


def left_in_doubt(machine: Any, annealer: Any, order: Any) -> None:
    """The order starts its run, and the machine goes out of reach for longer than the jig waits; it stays unplugged."""
    outcome = annealer.begin(order)
    until(lambda: machine.events("start"))
    machine.farm.unplug(0)
    doubt = outcome()
    assert isinstance(doubt, Unreachable)
    assert doubt.begun


def left_alone(machine: Any, annealer: Any, order: Any) -> None:
    """The jig is told to leave the run of the order alone, and no machine is there any more."""
    outcome = annealer.begin(order)
    until(lambda: machine.events("start"))
    annealer.stop.set()
    assert outcome() == Detached()
    annealer.stop.clear()
    machine.farm.unplug(0)


def plugged_in(machine: Any, annealer: Annealer) -> None:
    """The machine is there again, and may take longer to log in to: the host is under load."""
    annealer.jig._pool.configure(machine.settings())
    machine.farm.start(0)


def starts(machine: Any) -> int:
    """In each state directory that the machine had."""
    return sum(len(machine.events_in(state, "start")) for state in machine.farm.memories(machine.fqdn))


@pytest.mark.parametrize(
    ("flags", "unreached"),
    [
        pytest.param((), 0, id="a role that may be repeated"),
        pytest.param(("destructive",), 1, id="a destructive role, after one more call that reached nothing"),
    ],
)
def test_an_order_that_is_given_again_starts_no_second_run_on_a_machine_that_lost_its_state(
    machine: Any, annealer: Any, flags: tuple[str, ...], unreached: int
) -> None:
    order = machine.order("sleep 300", flags=flags, log=None)
    left_in_doubt(machine, annealer, order)
    for _ in range(unreached):
        unsent = annealer.run(order)
        assert isinstance(unsent, Unreachable)
        assert not unsent.begun, "by this call"
    machine.farm.lose_state(0)
    plugged_in(machine, annealer)
    assert isinstance(annealer.run(order), Lost)
    assert starts(machine) == 1


def test_the_next_run_of_the_same_generation_is_started_on_a_machine_that_lost_its_state(
    machine: Any, annealer: Any
) -> None:
    left_alone(machine, annealer, machine.order("sleep 300", log=None))
    machine.farm.lose_state(0)
    plugged_in(machine, annealer)
    outcome = annealer.run(machine.order("echo anew", epoch=2, previous_epoch=1, log=None))
    assert isinstance(outcome, Succeeded)
    assert (outcome.tail, starts(machine)) == ("anew\n", 2)


def test_an_order_that_is_given_again_attaches_to_the_run_that_goes_on(machine: Any, annealer: Any) -> None:
    order = machine.order('until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done; echo once', log=None)
    left_alone(machine, annealer, order)
    plugged_in(machine, annealer)
    outcome = annealer.begin(order)
    until(lambda: machine.events("attach"))
    machine.run_file("go").touch()
    assert outcome().tail == "once\n"
    assert starts(machine) == 1


def test_an_order_that_did_not_reach_its_machine_is_started_there_when_it_is_given_again(
    machine: Any, annealer: Any
) -> None:
    machine.farm.unplug(0)
    order = machine.order("echo first", flags=("destructive",), log=None)
    outcome = annealer.run(order)
    assert isinstance(outcome, Unreachable)
    assert not outcome.begun
    plugged_in(machine, annealer)
    assert annealer.run(order).tail == "first\n"


def test_a_later_order_that_is_left_in_doubt_hides_no_earlier_one_of_its_generation(
    machine: Any, annealer: Any
) -> None:
    left_alone(machine, annealer, machine.order("sleep 300", flags=("destructive",), log=None))
    machine.farm.lose_state(0)
    plugged_in(machine, annealer)
    assert annealer.run(machine.order("echo other", epoch=2, role="dns", log=None)).tail == "other\n"
    machine.farm.freeze(0)  # the next order is sent on the connection that is open, and never taken
    later = machine.order("sleep 300", flags=("destructive",), epoch=4, previous_epoch=3, log=None)
    outcome = annealer.begin(later)
    until(lambda: annealer.jig.sent == later.run)
    annealer.stop.set()
    assert outcome() == Detached()
    annealer.stop.clear()
    machine.farm.kill(0)
    machine.farm.start(0)
    assert isinstance(annealer.run(later), Lost)
    assert starts(machine) == 2
