"""What is different of a noderole that belongs to a run of tasks (docs/decisions/071)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import binding, commands, inputs, liveness, nodes, renaming
from nodepool_ocb.engine.noderole import Event, after
from nodepool_ocb.engine.readiness import Code, blockers
from nodepool_ocb.engine.unreadable import seen_by
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Check, Deployment, Node, NodeRole, Role, Set, State, Structure, TaskRunPointer
from nodepool_ocb.tasks.runs import records, roles
from nodepool_ocb.tasks.runs.records import Definition, LoadedTaskRun, TaskRun, TaskRunState
from tests.engine.worlds import put, world

N1, RUN = "n1.example.com", "0000000003"


def task(made: World, name: str, state: State, *parents: str, run: str = RUN, rank: int = 0) -> Vertex:
    """A task of a run, on n1."""
    return put(made, f"{name}@{N1}", state, *parents, task_run=run, rank=rank)


def codes(made: World, vertex: Vertex) -> list[Code]:
    return [reason.code for reason in blockers(made, vertex, 9.0, ["noop"])]


def test_a_task_that_failed_keeps_the_others_of_its_run_from_its_node() -> None:
    made = world()
    failed, other = task(made, "failed", State.ERROR), task(made, "other", State.TODO)
    assert codes(made, other) == [Code.NODE_FAILED]
    assert codes(made, task(made, "of-another-run", State.TODO, run="0000000004")) == []
    assert codes(made, put(made, f"role@{N1}", State.TODO)) == []
    made.put_noderole(N1, "failed", after(failed.record, Event.RETRY, 9.0), 8)
    assert codes(made, other) == []
    made.put_noderole(N1, "failed", replace(failed.record, state=State.ERROR), 9)
    made.drop_noderole(N1, "failed")
    assert codes(made, other) == []


def test_a_death_leaves_tasks_that_have_ended() -> None:
    made = world()
    for name, state in (("done", State.ACTIVE), ("failed", State.ERROR), ("begun", State.TODO)):
        task(made, name, state)
    put(made, f"role@{N1}", State.ACTIVE)
    running = task(made, "running", State.TRANSITION)
    made.put_noderole(N1, "running", replace(running.record, run="0000000001", by="a"), 8)
    changes = liveness.died(made.nodes[N1], 9.0, "it burnt")
    records = {each.path: each.data for each in changes if isinstance(each, Set)}
    moved = {path.rpartition("/")[2]: each.state for path, each in records.items() if isinstance(each, NodeRole)}
    assert {"done", "failed"}.isdisjoint(moved)
    assert (moved["running"], moved["role"]) == (State.TODO, State.TODO)
    dying = Node(alive=False, dying=True, reason="it burnt")
    made.put_node(N1, dying, 6)
    later = {each.path.rpartition("/")[2] for each in liveness.went_on(made.nodes[N1], 9.0) if isinstance(each, Set)}
    assert {"done", "failed"}.isdisjoint(later)


def test_a_task_sees_the_facts_of_its_run_and_its_own_attributes_alone() -> None:
    made = world()
    put(made, f"role@{N1}", State.ACTIVE)
    above = task(made, "above", State.ACTIVE)
    own = task(made, "own", State.TODO, above.name)
    found = inputs.sources(made, own, Role(barclamp="b", jig="noop", task="own"))
    common, here = paths.task_facts("system", RUN), paths.task_facts("system", RUN, N1)
    assert set(found.blobs) == {
        common,
        here,
        *(paths.noderole("own", N1) + f"/{kind}" for kind in ("wall", "system", "user")),
    }
    blobs = {
        common: {"a": 1, "b": 1},
        here: {"b": 2, "parameters": {"own": {"cmd": "x"}, "above": {"cmd": "y"}}},
        paths.user("own", N1): {"c": 3},
        paths.user("role", N1): {"d": 4},
        paths.user("above", N1): {"e": 5},
    }
    assert inputs.visible(inputs.layers(found, blobs)) == {
        "a": 1, "b": 2, "c": 3, "task": {"parameters": {"cmd": "x"}},
    }  # fmt: skip
    assert seen_by(own) == {own}, "what cannot be read elsewhere does not hold it back"


def test_a_task_is_never_outdated() -> None:
    made = world()
    own = task(made, "own", State.ACTIVE)
    found = inputs.sources(made, own, Role(barclamp="b", jig="noop", task="own"))
    assert inputs.judged(found, {}).number == 0, "nothing is noted of what it was given"


def test_only_a_run_moves_a_task() -> None:
    made = world()
    own, role = task(made, "own", State.ERROR), put(made, f"role@{N1}", State.ERROR)
    commands.refuse_tasks([role])
    with pytest.raises(Conflict, match=rf"own@{N1} belongs to tasks run system/{RUN}; .* tasks run .*--retry"):
        commands.refuse_tasks([role, own])
    with pytest.raises(Conflict, match="belongs to tasks run"):
        commands.redeploy(own, 9.0)


N2, LIVE = "n2.example.com", "0000000004"
POINTERS = {
    "under way": TaskRunPointer(newest=LIVE, over=False),
    "being prepared": TaskRunPointer(newest=RUN, preparing=LIVE),
}
VERBS: dict[str, Callable[[World], object]] = {
    "unbind": lambda made: binding.removable(vertex(made, f"step@{N1}")),
    "unbind together": lambda made: binding.removable_together([vertex(made, f"step@{N1}")]),
    "unbind above": lambda made: binding.removable(vertex(made, f"above@{N1}")),
    "delete": lambda made: nodes.delete(made, N1),
    "move": lambda made: liveness.changed(made, made.nodes[N1], 9.0, deployment="other"),
    "rename": lambda made: renaming.rename(made, N1, "n9.example.com", [], {}, admin_domain=None),
}


def vertex(made: World, name: str) -> Vertex:
    found = made.vertex(name)
    assert found is not None
    return found


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_run_of_tasks_keeps_its_noderoles_and_nodes_until_it_is_over(verb: str, pointer: str) -> None:
    made = world()
    made.put(Stored(Structure(), 0))
    made.put(Stored(Deployment(), 0), "other")
    task(made, "above", State.ACTIVE)
    task(made, "step", State.TODO, f"above@{N1}", run=LIVE)
    deployment = vertex(made, f"step@{N1}").record.deployment
    made.put(Stored(POINTERS[pointer], 0), deployment)
    with pytest.raises(Conflict) as refused:
        VERBS[verb](made)
    said = f"tasks run {deployment}/{LIVE} is {pointer}"
    assert said in str(refused.value)
    ends = {"under way": f"or end it: nodepool-ocb tasks stop {deployment}/{LIVE}"}
    assert str(refused.value).endswith(ends.get(pointer, f"or first: nodepool-ocb tasks stop {deployment}"))


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_of_tasks_that_is_over_keeps_nothing(verb: str) -> None:
    made = world()
    made.put(Stored(Structure(), 0))
    made.put(Stored(Deployment(), 0), "other")
    task(made, "above", State.ACTIVE)
    task(made, "step", State.ACTIVE, f"above@{N1}", run=RUN)
    made.put(Stored(TaskRunPointer(newest=RUN), 7), "system")
    changes = VERBS[verb](made)
    assert changes is not None
    if verb == "rename":
        assert Check(paths.task_runs("system"), 7) in changes, "and none begins meanwhile"


def test_another_node_is_free_while_a_run_of_tasks_is_under_way() -> None:
    made = world()
    made.put(Stored(Structure(), 0))
    made.put(Stored(Deployment(), 0), "other")
    put(made, f"role@{N2}", State.ACTIVE)
    task(made, "step", State.TODO, run=LIVE)
    made.put(Stored(POINTERS["under way"], 0), "system")
    assert nodes.going(made.nodes[N2])
    assert liveness.changed(made, made.nodes[N2], 9.0, deployment="other")


def test_no_task_is_bound_to_a_node_that_is_being_deleted() -> None:
    made = world()
    made.put(Stored(Structure(), 0))
    made.put_node(N1, Node(alive=True, deleting=True), 8)
    plan = records.plan_of([("step", N1, 1, ())], ())
    head = TaskRun(state=TaskRunState.COMMITTING, virtual="t.internal")
    step = Definition(id="step", role="step", kind="shell")
    running = LoadedTaskRun("system", LIVE, head, plan, (), {"step": step})
    with pytest.raises(Conflict, match=r"n1\.example\.com is being deleted; run the tasks again without it"):
        list(roles.of_noderoles(made, running, 9.0, "ann"))
