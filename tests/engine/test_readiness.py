"""What a run needs, condition by condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import noderole
from nodepool_ocb.engine.readiness import Code, Reason, blockers, runnable, standing, why_not
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.aliveness import Suspicion
from nodepool_ocb.model.records import Claim, Deployment, DeploymentState, Node, NodeRole, Role, State
from tests.engine.worlds import put, world

PROPOSED = Stored(Deployment(parent=None, state=DeploymentState.PROPOSED), 3)


@pytest.mark.parametrize(
    ("lacks", "code"),
    [
        (lambda made: made.put(Stored(Role(barclamp="b", jig="chef"), 0), "app"), Code.JIG_INACTIVE),
        (lambda made: made.put(PROPOSED, "system"), Code.DEPLOYMENT_PROPOSED),
        (lambda made: made.put_node("n", Node(alive=False), 5), Code.NODE_NOT_ALIVE),
        (lambda made: made.put_node("n", Node(alive=True, available=False), 5), Code.NODE_NOT_AVAILABLE),
        (lambda made: put(made, "other@n", State.TRANSITION), Code.NODE_BUSY),
        (lambda made: made.put(Stored(Role(barclamp="b", jig="install"), 0), "app"), Code.INSTALL_NOT_ALLOWED),
    ],
)
def test_the_four_conditions_of_a_run(lacks: Callable[[World], object], code: Code) -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    assert runnable(made, vertex, 1.0, {"noop"})
    lacks(made)
    jigs = {"noop", "install"}
    assert not runnable(made, vertex, 1.0, jigs)
    assert [reason.code for reason in blockers(made, vertex, 1.0, jigs)] == [code]


def test_what_runs_on_another_node_holds_nothing_back() -> None:
    made = world()
    vertex = put(made, "app@n", State.TODO)
    put(made, "other@m", State.TRANSITION)
    assert runnable(made, vertex, 1.0, {"noop"})


MARKED = "marked by the machine itself until 06:37"


@pytest.mark.parametrize(
    ("state", "fields", "node", "shown"),
    [
        (State.BLOCKED, {"reason": MARKED}, {"alive": True, "since": 5.0}, "its parent above@n1 is TODO"),
        (State.TODO, {"reason": MARKED}, {"alive": True, "since": 5.0}, None),
        (State.TODO, {"reason": MARKED}, {"alive": False, "since": 5.0}, MARKED),
        (State.TODO, {"reason": "exit code 3", "not_before": 9.0}, {"alive": True, "since": 5.0}, "exit code 3"),
        (State.TODO, {"reason": "exit code 3"}, {"alive": True, "since": 1.0}, "exit code 3"),
        (State.ERROR, {"reason": "exit code 3"}, {"alive": True, "since": 5.0}, "exit code 3"),
    ],
)
def test_a_reason_is_not_shown_when_its_cause_is_over(
    state: State, fields: dict[str, Any], node: dict[str, Any], shown: str | None
) -> None:
    made = World()
    made.put_node("n1", Node(**node), 0)
    made.put_noderole("n1", "above", NodeRole(state=State.TODO, since=1.0), 0)
    record = NodeRole.of(state=state, since=2.0, parents=("above@n1",) if state is State.BLOCKED else (), **fields)
    assert standing(made.put_noderole("n1", "below", record, 0)) == shown


def test_what_is_blocked_has_no_reason_of_an_earlier_state() -> None:
    failed = NodeRole.of(state=State.ERROR, since=1.0, reason="exit code 3")
    assert noderole.settled(failed, 1, 2.0).reason is None


@pytest.mark.parametrize(("state", "named"), [(State.TODO, True), (State.TRANSITION, True), (State.ACTIVE, False)])
def test_a_node_that_an_annealer_does_not_reach_is_a_reason_of_noderoles_that_may_begin(
    state: State, named: bool
) -> None:
    made = world()
    suspicion = Suspicion(by="a2", reason="connect: timed out", since=4.0)
    made.put_node("n", Node(alive=True, suspicion=suspicion), 5)
    found = [each for each in why_not(made, put(made, "app@n", state), 9.0) if each.code is Code.NODE_SUSPECTED]
    assert [(each.since, each.text) for each in found] == (
        [(4.0, "node n: annealer a2 does not reach it: connect: timed out")] if named else []
    )


def reason(made: World, name: str, code: Code) -> Reason:
    """The one reason of this code that the noderole waits for."""
    vertex = made.vertex(name)
    assert vertex is not None
    (found,) = (each for each in why_not(made, vertex, 9.0) if each.code is code)
    return found


def test_the_parents_of_a_proposed_noderole_are_no_reason_before_it_is_committed() -> None:
    made = world()
    put(made, "above@m", State.TODO)
    for state, codes in ((State.PROPOSED, [Code.PROPOSED]), (State.BLOCKED, [Code.PARENT_WAITING])):
        assert [each.code for each in why_not(made, put(made, "app@n", state, "above@m"), 9.0)] == codes


def test_a_failed_parent_is_retried_by_the_command_of_its_kind() -> None:
    made = world()
    put(made, "plain@m", State.ERROR)
    put(made, "task@n", State.ERROR, task_run="0000000003")
    put(made, "app@o", State.BLOCKED, "plain@m")
    put(made, "next@n", State.BLOCKED, "task@n", task_run="0000000003")
    assert "nodepool-ocb noderole retry plain@m" in reason(made, "app@o", Code.PARENT_ERROR).advice
    assert "nodepool-ocb tasks run --deployment system --retry" in reason(made, "next@n", Code.PARENT_ERROR).advice


def test_a_node_that_is_not_available_is_named_with_the_time_since_then() -> None:
    made = world()
    put(made, "app@n", State.TODO)
    made.put_node("n", Node(alive=True, available=False, since=4.0), 6)
    assert reason(made, "app@n", Code.NODE_NOT_AVAILABLE) == Reason(
        Code.NODE_NOT_AVAILABLE, "n", 4.0, "node n is not available", "nodepool-ocb node available n"
    )


@pytest.mark.parametrize(
    ("addresses", "advice"),
    [
        ((), "it has no address that annealers could probe: nodepool-ocb node set n addresses=HOST"),
        (("192.0.2.1",), "check the machine; annealers probe it; see: nodepool-ocb node show n"),
    ],
)
def test_the_next_step_for_a_dead_node_without_an_address_is_to_give_it_one(
    addresses: tuple[str, ...], advice: str
) -> None:
    made = world()
    put(made, "app@n", State.TODO)
    made.put_node("n", Node(alive=False, addresses=addresses), 6)
    assert reason(made, "app@n", Code.NODE_NOT_ALIVE).advice == advice


def test_a_task_that_failed_says_so_with_its_time_and_the_command_that_retries_it() -> None:
    made = world()
    vertex = put(made, "task@n", State.ERROR, task_run="0000000003", reason="exit code 3")
    made.put_noderole("n", "task", replace(vertex.record, since=4.0), 8)
    assert reason(made, "task@n", Code.FAILED) == Reason(
        Code.FAILED,
        "task@n",
        4.0,
        "its run failed: exit code 3",
        "mend the cause, then: nodepool-ocb tasks run --deployment system --retry",
    )


@pytest.mark.parametrize(("cancel_reason", "end"), [(None, ""), ("enough", ", and is to cancel it: enough")])
def test_a_noderole_that_runs_names_its_annealer(cancel_reason: str | None, end: str) -> None:
    made = world()
    put(made, "app@n", State.TRANSITION, run="r1", cancel_reason=cancel_reason)
    made.put_claim("n", Claim(annealer="a", noderole="app@n", run="r1", epoch=7, since=1.0), 1)
    found = reason(made, "app@n", Code.RUNNING)
    assert (found.text, found.advice) == (f"annealer a works on it{end}", "nodepool-ocb noderole log -f app@n")


def test_a_noderole_of_a_node_that_does_not_exist_has_a_reason() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="noop"), 0), "app")
    vertex = made.put_noderole("n", "app", NodeRole(state=State.TODO, since=0.0), 0)
    assert [each.code for each in why_not(made, vertex, 9.0)] == [Code.NODE_NOT_ALIVE]


def test_without_an_annealer_nothing_begins() -> None:
    made = world()
    put(made, "app@n", State.TODO)
    made.annealers.clear()
    found = list(blockers(made, made.nodes["n"].noderoles["app"], 1.0, {"noop"}))
    assert [(each.code, each.subject, each.text) for each in found] == [
        (Code.NO_ANNEALER, "annealer", "no annealer is running")
    ]
