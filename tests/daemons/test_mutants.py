"""Each guard is needed: with it nothing comes of the bad luck that it is for; without it the checker finds the harm.

The bad luck is arranged, not waited for: an annealer stops itself between a decision and the act, all others go on, and
then it acts (mutants.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import mutants
import pytest
from fleet import Fleet
from history import Event as Noted

from nodepool_ocb.aliveness import died
from nodepool_ocb.model import State
from nodepool_ocb.noderole import Event
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper import Server

SLOW_SECONDS = 2.0


@pytest.fixture
def two(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=2) as fleet:
        yield fleet


def launch(fleet: Fleet, mutant: str, moment: str, role: str, session_seconds: float = 2.0) -> CutDaemon:
    launcher = (mutants.__file__, mutant, moment, role)
    return fleet.annealer(launcher=launcher, session_seconds=session_seconds)


def late_order(fleet: Fleet, mutant: str) -> None:
    """An order leaves after the node was taken over, and after its noderole was put into another generation."""
    fleet.add_role("slow", fleet.work(SLOW_SECONDS))
    noderole, node = fleet.bind("slow", fleet.nodes[0]), fleet.nodes[0]
    late = launch(fleet, mutant, "order", "slow").begin(BAD_LUCK="1")
    fleet.until(lambda: late.frozen, "it has claimed, and not ordered")
    fleet.until(lambda: not fleet.claim_stands(node), "its session is over")
    fleet.write(lambda world: died(world.nodes[node], time.time(), "it was seen dead"))
    fleet.set_node(node, alive=True)
    launch(fleet, mutant, "order", "slow").begin()
    fleet.until_started(noderole)
    late.thaw()


def late_claim(fleet: Fleet, mutant: str) -> None:
    """A claim leaves after a parent was taken back, and runs again."""
    fleet.add_role("above", fleet.work(SLOW_SECONDS))
    fleet.add_role("below", fleet.work(0.0))
    above = fleet.bind("above", fleet.nodes[0])
    fleet.bind("below", fleet.nodes[1], [above])
    late = launch(fleet, mutant, "claim", "below", session_seconds=60.0).begin(BAD_LUCK="1")
    fleet.until(lambda: late.frozen, "it has decided to claim")
    fleet.happens(above, Event.PROPOSE)
    fleet.happens(above, Event.COMMIT)
    launch(fleet, mutant, "claim", "below").begin()
    fleet.until(lambda: fleet.starts()[above] == 2, "the parent runs again")
    late.thaw()


def test_an_order_that_comes_late_is_refused_by_the_machine(fleet: Fleet) -> None:
    late_order(fleet, "none")
    fleet.until(lambda: fleet.noted(Noted.FENCED), "the machine refuses the late order")
    fleet.until_all_active()
    assert not fleet.faults()


def test_a_claim_that_comes_late_is_refused_by_zookeeper(two: Fleet) -> None:
    late_claim(two, "none")
    two.until_all_active()
    assert not two.faults()
    assert sum(two.starts().values()) == 3


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        ("no fence", {"shared_epochs", "run_again"}),
        ("no epoch on the machine", {"falling_epochs", "run_again"}),
    ],
)
def test_without_an_epoch_a_late_order_does_harm_and_is_found(fleet: Fleet, mutant: str, rules: set[str]) -> None:
    late_order(fleet, mutant)
    fleet.until(lambda: rules <= fleet.broken(), f"the checker finds {rules}")


def test_without_versions_a_late_claim_does_harm_and_is_found(two: Fleet) -> None:
    late_claim(two, "no versions")
    two.until(lambda: "before_parents" in two.broken(), "the checker finds a child before its parent")


def test_the_bad_luck_alone_changes_nothing(fleet: Fleet) -> None:
    """The launcher without bad luck is an annealer like any other."""
    fleet.add_role("slow", fleet.work(0.0))
    noderole = fleet.bind("slow", fleet.nodes[0])
    launch(fleet, "none", "order", "slow").begin()
    fleet.until_state(noderole, State.ACTIVE)
    assert not fleet.faults()
