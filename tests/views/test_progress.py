"""Waiting ends when the end is known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.records import Deployment, DeploymentRole, Node, NodeRole, State
from nodepool_ocb.rollout import commands
from nodepool_ocb.rollout.records import GroupState, NodeState, apply
from nodepool_ocb.rollout.strategy import Batch, Criteria, Group
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.progress import WaitDocument, awaited, held_up, moved, of_noderoles, of_rollout
from nodepool_ocb.views.view import plain
from tests.views.small import N1, TOP, chain, put, small
from tests.views.small_rollouts import in_state, rollout_of


@pytest.mark.parametrize(
    ("first", "outcome"),
    [(State.ERROR, "error"), (State.PROPOSED, "error"), (State.TODO, None), (State.TRANSITION, None)],
)
def test_waiting_is_over_when_the_end_is_known(first: State, outcome: str | None) -> None:
    assert of_noderoles(chain(5, first), ["r4@n"]).outcome == outcome
    assert of_noderoles(chain(5, first), ["r4@n", "gone@n"]).outcome == "deleted"


def test_a_refresh_that_is_pending_is_not_ready() -> None:
    world = chain(1, State.ACTIVE)
    assert of_noderoles(world, ["r0@n"]).outcome == "active"
    world.put_noderole("n", "r0", NodeRole.of(state=State.ACTIVE, since=5.0, deployment="d", refresh=True))
    assert of_noderoles(world, ["r0@n"]).outcome is None


def test_a_proposed_deployment_cannot_become_active() -> None:
    world = chain(2, State.TODO)
    world.put(Stored(Deployment(), 1), "d")
    assert of_noderoles(world, ["r1@n"]).outcome == "error"


@pytest.mark.parametrize("first", [State.PROPOSED, State.TODO])
def test_a_role_that_refuses_its_deployment_cannot_become_active(first: State) -> None:
    world = chain(3, first)
    refused = DeploymentRole(refused={"on_deployment_create": "no server"})
    world.put(Stored(refused, 0), "d", "r0")
    found = of_noderoles(world, ["r2@n"])
    (stuck,) = found.stuck
    (reason,) = [each for each in why_not(world, world.vertex("r0@n"), 9.0) if each.code is Code.HOOK_REFUSED]
    assert (found.outcome, stuck) == ("error", f"r0@n does not start: {reason.text}; {reason.advice}")


def test_a_role_that_is_asked_again_may_agree() -> None:
    world = chain(1, State.TODO)
    asked = DeploymentRole(hooks=("on_deployment_create",), refused={"on_deployment_create": "no server"})
    world.put(Stored(asked, 0), "d", "r0")
    assert of_noderoles(world, ["r0@n"]).outcome is None


def test_what_only_a_person_or_the_machine_can_end_is_said_once() -> None:
    world = chain(4, State.TODO)
    assert held_up(world, ["r0@n", "r1@n"], now=9.0) == []
    world.put_node("n", Node(alive=False, reason="connect: refused"), 1)
    (sentence,) = held_up(world, ["r0@n", "r1@n", "gone@n"], now=9.0)
    assert sentence.startswith("waiting: ")
    assert "connect: refused" in sentence


def test_a_wait_is_shown_with_what_was_changed_before_only_where_something_was() -> None:
    rows = tuple(awaited(chain(1, State.ACTIVE), ["r0@n", "gone@n"]))
    document = WaitDocument(outcome="active", stuck=(), noderoles=rows)
    assert plain(document) == {
        "outcome": "active",
        "stuck": [],
        "noderoles": [
            {"noderole": "r0@n", "state": "ACTIVE", "since": 5.0, "reason": "bang"},
            {"noderole": "gone@n", "state": None, "since": None, "reason": None},
        ],
    }
    change = ChangeRow(change="change", kind="noderole", name="r0@n", state="TODO")
    changed = WaitDocument(outcome="active", stuck=(), noderoles=rows, changes=(change,))
    assert plain(changed)["changes"] == [{"change": "change", "kind": "noderole", "name": "r0@n", "state": "TODO"}]


def test_a_rollout_waits_for_somebody_only_when_nothing_moves_by_itself() -> None:
    canary = Group(name="a", batches=(Batch(nodes=1, pause=True),), success_criteria=Criteria())
    other = Group(name="b")
    paused = in_state(rollout_of(canary, other), "a", GroupState.PAUSED)
    assert of_rollout(paused).outcome == "paused"
    assert of_rollout(apply(paused, commands.promote(paused, "a", 1))).outcome is None
    assert of_rollout(in_state(rollout_of(canary, other, parallel_groups=2), "a", GroupState.PAUSED)).outcome is None
    assert of_rollout(in_state(paused, "b", GroupState.RUNNING)).outcome is None
    flying = replace(paused.nodes["ntp01"], state=NodeState.SENT)
    assert of_rollout(replace(paused, nodes={**paused.nodes, "ntp01": flying})).outcome is None
    assert of_rollout(None).outcome == "deleted"


def test_a_critical_group_that_failed_ends_a_wait_that_fails_fast() -> None:
    failed = in_state(
        rollout_of(Group(name="a", critical=True), Group(name="b")), "a", GroupState.FAILED, detail="2 failed"
    )
    assert of_rollout(failed).outcome is None
    assert of_rollout(failed, fail_fast=True).sentence == "critical group a failed: 2 failed"


def test_each_group_that_has_begun_says_where_it_stands() -> None:
    rollout = rollout_of(Group(name="a", batches=(Batch(nodes=1),)), Group(name="b"), Group(name="c"), Group(name="d"))
    rollout = in_state(rollout, "a", GroupState.RUNNING, turn=2)
    rollout = in_state(rollout, "b", GroupState.FAILED, turn=1, detail="1 failed")
    rollout = in_state(rollout, "d", GroupState.FAILED, turn=3, accepted="it is old")
    phase = rollout.head.strategy.phases[0].name
    assert moved(rollout) == [
        "group b: failed: 1 failed",
        f"group a: {phase} of batch 1",
        "group d: failed, accepted: it is old",
    ]


def test_failures_of_one_role_and_cause_are_one_sentence_though_numbers_and_nodes_differ() -> None:
    world = small()
    nodes = [f"web{number:02}.example.com" for number in range(1, 6)]
    for number, fqdn in enumerate(nodes):
        world.put_node(fqdn, Node(alive=True), 0)
        put(world, f"base@{fqdn}", State.ERROR, reason=f"exit code 1: mv: /etc/hosts.new.26{number}: busy on {fqdn}")
    put(world, f"middle@{nodes[0]}", State.ERROR, reason="exit code 1: mv: busy")
    found = of_noderoles(world, [*(f"base@{fqdn}" for fqdn in nodes), f"middle@{nodes[0]}"])
    assert found.causes == (
        "base on 5 nodes (web01.example.com, web02.example.com, web03.example.com and 2 more)"
        " is in ERROR: exit code 1: mv: /etc/hosts.new.260: busy on web01.example.com",
        "middle@web01.example.com is in ERROR: exit code 1: mv: busy",
    )
    assert len(found.stuck) == 6


def test_a_short_name_of_a_node_is_no_part_of_a_cause() -> None:
    world = small()
    for fqdn in ("a.example.com", "b.example.com"):
        world.put_node(fqdn, Node(alive=True), 0)
        put(world, f"base@{fqdn}", State.ERROR, reason=f"disk bad on {fqdn.partition('.')[0]}: no answer")
    assert len(of_noderoles(world, ["base@a.example.com", "base@b.example.com"]).causes) == 1


def test_many_causes_are_counted_after_the_first_ten() -> None:
    world = small()
    for number, letter in enumerate("abcdefghijkl"):
        put(world, f"{letter}{letter}@{N1}", State.ERROR, reason=str(number))
    found = of_noderoles(world, [f"{letter}{letter}@{N1}" for letter in "abcdefghijkl"])
    assert (len(found.causes), found.causes[-1]) == (11, "... and 2 more causes; -o json has all")


def test_a_wait_is_settled_when_nothing_can_move_without_a_person() -> None:
    world = small()  # base is in ERROR, and middle and top wait below it
    put(world, f"other@{N1}", State.TRANSITION)
    assert (of_noderoles(world, [TOP]).settled, of_noderoles(world, [TOP]).outcome) == ("error", "error")
    found = of_noderoles(world, [TOP, f"other@{N1}"])
    assert (found.outcome, found.settled, found.moving) == ("error", None, (f"other@{N1}",))
    put(world, f"other@{N1}", State.ACTIVE)
    assert of_noderoles(world, [TOP, f"other@{N1}"]).settled == "error"
    assert of_noderoles(world, [f"other@{N1}"]).settled == "active"
