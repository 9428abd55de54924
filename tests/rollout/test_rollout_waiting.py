"""What a node of a rollout waits for, told by what the engine decides from."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout import blockers, commands, plan
from nodepool_ocb.rollout.blockers import WaitKind
from nodepool_ocb.rollout.records import GroupState, NodeState, Rollout, apply
from nodepool_ocb.rollout.strategy import Batch, Criteria, Group, InFlight, Selector, Strategy
from tests.rollout import simulation

NODES = {f"n{number}": Node(rack=f"r{number % 2}", tags=("late",) if number > 2 else ()) for number in range(4)}
FIRST = Group(name="first", selectors=(Selector(node_names=("n0", "n1", "n2")),))
SECOND = Group(name="second", depends_on=("first",), selectors=(Selector(node_tags=("late",)),))


def driven(*groups: Group, machines: simulation.Machines | None = None, **rules: Any) -> simulation.Driver:
    """Up to where machines would have to begin."""
    rollout = plan.begin(Strategy(groups=groups, **rules), NODES, now=1.0)
    driver = simulation.Driver(rollout, machines or simulation.Machines())
    driver.settle()
    return driver


def blocker(rollout: Rollout, node: str) -> tuple[WaitKind, str, str]:
    found = blockers.wait(rollout, node)
    assert found is not None
    return found.kind, found.group, found.text


def test_a_group_waits_for_those_that_it_depends_on() -> None:
    assert blocker(driven(FIRST, SECOND).rollout, "n3") == (
        WaitKind.WAITING, "second", "group second waits for group first, which is running (prepare)"
    )  # fmt: skip


def test_a_group_waits_for_its_turn() -> None:
    second = replace(SECOND, depends_on=())
    text = "group second waits for its turn: one group is at work at once, now first"
    assert blocker(driven(FIRST, second).rollout, "n3")[2] == text


def test_before_anybody_drives_it_a_group_waits_for_an_annealer() -> None:
    rollout = plan.begin(Strategy(groups=(FIRST,)), NODES, now=1.0)
    assert blocker(rollout, "n0")[2] == "group first begins as soon as an annealer drives the rollout"


@pytest.mark.parametrize(
    ("limits", "group", "text"),
    [
        (InFlight(nodes=2), FIRST, "2 nodes are in flight, as many as may be"),
        (InFlight(), replace(FIRST, parallel_nodes=2), "2 nodes of group first are in flight, as many as may be"),
        (InFlight(rack=1), FIRST, "1 node of rack r0 is in flight, as many as may be"),
    ],
)
def test_a_node_waits_for_the_limits_of_nodes_in_flight(limits: InFlight, group: Group, text: str) -> None:
    rollout = driven(group, max_in_flight=limits).rollout
    assert blocker(rollout, "n2")[2] == f"group first is in phase prepare, and {text}"
    assert blocker(rollout, "n0")[2] == "the node is at work for phase prepare of group first"


def test_a_node_waits_for_its_batch_and_then_for_somebody() -> None:
    group = replace(FIRST, batches=(Batch(nodes=1, pause=True),))
    driver = driven(group)
    assert (
        blocker(driver.rollout, "n1")[2]
        == "group first is in phase prepare of batch 1; the node comes in a later batch"
    )
    while driver.rollout.groups["first"].state is not GroupState.PAUSED:
        assert driver.machines.begin() or driver.machines.finish()
        driver.settle()
    kind, _, text = blocker(driver.rollout, "n1")
    assert (kind, text.startswith("group first pauses after batch 1")) == (WaitKind.PAUSED, True)
    assert blockers.for_somebody(driver.rollout) == ("first",)
    assert blockers.for_somebody(apply(driver.rollout, commands.promote(driver.rollout, "first", 1))) == ()


def test_a_node_that_has_passed_a_phase_waits_for_the_others() -> None:
    driver = driven(FIRST)
    driver.machines.begin(lambda node: node == "n0")
    driver.machines.finish()
    driver.settle()
    assert driver.rollout.nodes["n0"].state is NodeState.PREPARED
    text = "group first is in phase prepare, which the node has passed; the next begins when the others have"
    assert blocker(driver.rollout, "n0")[2] == text


def test_failed_and_skipped_nodes_are_not_waited_for() -> None:
    first = replace(FIRST, success_criteria=Criteria(percent_successful_nodes=100))
    driver = driven(first, SECOND, machines=simulation.Machines(simulation.failing(("n1", 0))))
    rollout = driver.run()
    assert blocker(rollout, "n1") == (WaitKind.LOST, "first", "the node failed in group first: it broke")
    assert blocker(rollout, "n0")[0] is WaitKind.LEFT_OUT
    assert blocker(rollout, "n3") == (
        WaitKind.LEFT_OUT, "second", "group second failed: it depends on group first, which failed"
    )  # fmt: skip


def test_what_is_done_or_in_no_group_waits_for_nothing() -> None:
    rollout = driven(FIRST).run()
    assert blockers.wait(rollout, "n0") is None
    assert blockers.wait(rollout, "n3") is None
    assert blockers.wait(rollout, "elsewhere") is None
    assert blockers.for_somebody(rollout) == ()


def test_a_node_that_ran_out_of_time_is_unknown() -> None:
    rollout = driven(FIRST).rollout
    lost = replace(rollout.nodes["n0"], state=NodeState.UNKNOWN, reason="ran out of time")
    rollout = replace(rollout, nodes={**rollout.nodes, "n0": lost})
    assert blocker(rollout, "n0") == (WaitKind.LOST, "first", "the node is unknown in group first: ran out of time")


def test_a_group_that_waits_for_its_turn_names_all_groups_at_work() -> None:
    groups = [Group(name=f"g{number}", selectors=(Selector(node_names=(f"n{number}",)),)) for number in range(3)]
    text = "group g2 waits for its turn: 2 groups are at work at once, now g0, g1"
    assert blocker(driven(*groups, parallel_groups=2).rollout, "n2")[2] == text


def test_a_node_that_was_left_out_by_a_cancellation_is_told_the_reason_of_the_rollout() -> None:
    driver = driven(FIRST, SECOND)
    rollout = apply(driver.rollout, commands.cancel(driver.rollout, 5.0, "ann", "enough"))
    assert blocker(rollout, "n3") == (
        WaitKind.LEFT_OUT,
        "second",
        "the rollout is cancelling: cancelled by ann: enough",
    )
