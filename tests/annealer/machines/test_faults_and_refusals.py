"""For how long a node is left alone: after faults of this host, after refusals, and after relapses of a machine."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.records import Node
from nodepool_ocb_annealer.machines.faults import Faults
from nodepool_ocb_annealer.machines.relapses import Relapses
from nodepool_ocb_annealer.refusals import Refusals


def test_each_fault_at_a_node_doubles_the_time_for_which_it_is_left_alone() -> None:
    faults = Faults()
    assert faults.until("n", 0.0) is None
    waits = []
    for _ in range(13):
        faults.unreached("n", 100.0)
        waits.append((faults.until("n", 100.0) or 0.0) - 100.0)
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * 8]
    assert faults.until("m", 100.0) is None
    assert faults.until("n", 160.0) is None
    assert not faults.troubled
    faults.well("n")
    faults.unreached("n", 200.0)
    assert faults.until("n", 200.0) == 202.0


def test_faults_at_two_nodes_keep_this_host_from_all_until_something_goes_well() -> None:
    faults = Faults()
    faults.fault("n", 100.0, "the disk is full")
    assert (faults.troubled, faults.trouble, faults.until("other", 100.0)) == (False, None, None)
    faults.fault("m", 100.0, "no thread")
    assert faults.trouble == "this host fails at one machine after another: no thread"
    assert faults.until("other", 100.0) == 104.0
    faults.fault("k", 101.0, "no thread")
    assert faults.until("other", 101.0) == 109.0
    faults.well("k")
    assert (faults.troubled, faults.until("other", 101.0)) == (False, None)
    assert faults.until("m", 100.5) == 102.0, "a node keeps its own pause"


def test_one_role_at_many_nodes_is_one_fault_unless_this_host_fails_without_it() -> None:
    faults = Faults()
    for fqdn in ("n", "m", "k"):
        faults.fault(fqdn, 100.0, "it raised", role="a")
    assert not faults.troubled
    faults.fault("n", 100.0, "the disk is full")
    faults.fault("n", 100.0, "it raised", role="a")
    assert faults.troubled, "the word of a fault without a role stays"


def test_a_refusal_costs_nothing_at_first_and_then_twice_as_long_each_time() -> None:
    refusals = Refusals(free=2, first_seconds=0.5, quiet=2)
    assert (refusals.until("n", 0.0), refusals.news("n", "x")) == (None, None)
    assert refusals.refused("n", 0.0) == 0.5
    assert (refusals.until("n", 0.0), refusals.news("n", "x")) == (None, None)
    assert refusals.refused("n", 0.0) == 0.5
    assert (refusals.until("n", 0.0), refusals.news("n", "x")) == (None, None)
    assert refusals.refused("n", 0.0) == 1.0
    assert (refusals.until("n", 0.0), refusals.until("n", 1.0), refusals.until("m", 0.0)) == (1.0, None, None)
    assert (refusals.news("n", "x"), refusals.news("n", "x"), refusals.news("n", "y")) == ("x", None, "y")
    waits = [refusals.refused("n", 0.0) for _ in range(12)]
    assert waits == [2.0, 4.0, 8.0, 16.0, *[30.0] * 8]
    refusals.well("n")
    assert (refusals.until("n", 0.0), refusals.refused("n", 0.0)) == (None, 0.5)


def test_a_refusal_long_after_the_last_is_the_first() -> None:
    for seconds, wait in ((59.0, 1.0), (60.0, 0.5)):
        refusals = Refusals(free=1, first_seconds=0.5, quiet=0)
        assert refusals.refused("n", 0.0) == 0.5
        assert refusals.news("n", "x") == "x"
        assert refusals.refused("n", 0.5 + seconds) == wait
        assert refusals.news("n", "x") == (None if seconds < 60.0 else "x")


def relapse(relapses: Relapses, at: float, after: float = 10.0, **fields: Any) -> float:
    """A machine that a probe makes alive is dead a moment later; for how long it is not asked after that."""
    relapses.revived("n", Node(), at)
    dead = Node(**{"alive": False, "reason": "run: it went away", "since": at + after, **fields})
    return relapses.wait_seconds("n", dead, at + after, 5.0)


def test_a_machine_that_dies_soon_after_each_probe_is_asked_later_and_later() -> None:
    relapses = Relapses()
    assert [relapse(relapses, at * 1000.0) for at in range(10)] == [
        0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 640.0, 640.0,
    ]  # fmt: skip
    dead = Node(alive=False, reason="run: it went away", since=9010.0)
    assert relapses.wait_seconds("n", dead, 9110.0, 5.0) == 540.0
    assert relapses.wait_seconds("n", dead, 9910.0, 5.0) == 0.0
    assert relapses.wait_seconds("m", dead, 9110.0, 5.0) == 0.0


def test_a_record_that_is_written_again_is_no_other_relapse() -> None:
    relapses = Relapses()
    for at in (0.0, 1000.0):
        relapse(relapses, at)
    later = Node(alive=False, reason="run: it went away", since=1400.0)
    assert relapses.wait_seconds("n", later, 1010.0, 5.0) == 10.0
    relapses.revived("n", Node(), 2000.0)
    assert relapses.wait_seconds("n", later, 2001.0, 5.0) == 0.0, "the record of before"
    assert relapse(relapses, 2000.0) == 20.0


@pytest.mark.parametrize("case", ["another step", "it lived long", "another way", "it stayed alive", "it is forgotten"])
def test_the_relapses_of_a_machine_are_forgotten(case: str) -> None:
    relapses = Relapses()
    for at in (0.0, 1000.0):
        assert relapse(relapses, at) in (0.0, 10.0)
    if case == "another step":
        assert relapse(relapses, 2000.0, reason="connect: no route") == 0.0
    elif case == "it lived long":
        assert relapse(relapses, 2000.0, after=121.0) == 0.0
    elif case == "another way":
        assert relapse(relapses, 2000.0, addresses=("192.0.2.1",)) == 0.0
    elif case == "it stayed alive":
        relapses.revived("n", Node(), 2000.0)
        assert relapses.wait_seconds("n", Node(alive=True), 2121.0, 5.0) == 0.0
    else:
        relapses.forget("n")
    assert relapse(relapses, 3000.0) == 0.0
    assert relapse(relapses, 4000.0) == 10.0
