"""Runs of tasks over random graphs, failures and interleavings, driven by drivers that die between any two transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodepool_ocb.engine import claim, commands
from nodepool_ocb.engine.noderole import Event, apply, settle
from nodepool_ocb.engine.readiness import runnable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Daemon, Deployment, DeploymentState, Node, Role, Set, State
from nodepool_ocb.store.world.paths import parse
from nodepool_ocb.tasks.plan import VIRTUAL, TaskPlan
from nodepool_ocb.tasks.runs import history, roles
from nodepool_ocb.tasks.runs.deciding import TaskRunDecision, decide
from nodepool_ocb.tasks.runs.history import HistoryRow
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, Outcome, TaskRun, TaskRunState, Tolerance
from nodepool_ocb.tasks.runs.status import RunStatus

LAB, RUN, BARRIERS = "lab", "0000000000", "tasks-lab.internal"


def plan_of(nodes: int, edges: Sequence[Sequence[int]], places: Sequence[int]) -> TaskPlan:
    """Vertex v is task ``tv`` on node ``places[v]``, or a barrier where that is ``nodes``."""
    names = (*(f"n{number}.x.y" for number in range(nodes)), VIRTUAL)
    barriers = frozenset(at for at, place in enumerate(places) if place == nodes)
    count = len(places)
    return TaskPlan(
        nodes=names,
        tasks=tuple(f"t{at}" for at in range(count)),
        task_of=list(range(count)),
        node_of=list(places),
        parents=edges,
        rank=[count - at for at in range(count)],
        barriers=barriers,
    )


@st.composite
def plans(draw: st.DrawFn) -> TaskPlan:
    nodes = draw(st.integers(1, 4))
    count = draw(st.integers(1, 12))
    places = [draw(st.integers(0, nodes)) for _ in range(count)]
    places[0] = 0
    edges = [draw(st.lists(st.integers(0, at - 1), max_size=3, unique=True)) if at else [] for at in range(count)]
    return plan_of(nodes, edges, places)


class Simulated:
    """A run, its world, and annealers that do one thing at a time."""

    def __init__(self, plan: TaskPlan, failing: Mapping[int, int] | None = None, **head: object) -> None:
        definitions = roles.definitions(plan, {}, LAB)
        record = TaskRun(state=TaskRunState.COMMITTING, virtual=BARRIERS, **head)  # type: ignore[arg-type]
        self.running = LoadedTaskRun(LAB, RUN, record, plan, (), definitions)
        self.world, self.failing, self.now = World(), failing or {}, 100.0
        self.log: list[str] = []
        self.started: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        annealer = Daemon(host="h", pid=1, version="1", started=0.0, jigs=("noop",))
        self.world.put(Stored(annealer, 0), "annealer", "a")
        self.world.put(Stored(Deployment(state=DeploymentState.COMMITTED), 0), LAB)
        for name in (*plan.nodes[:-1], BARRIERS):
            self.world.put_node(name, Node(deployment=LAB, alive=True, virtual=True), 0)
            self.world.put_fence(name, 0)
        for each in definitions.values():
            self.world.put(Stored(Role(barclamp="t", jig="noop", flags=("task",), task=each.id), 0), each.role)
        for transaction in roles.of_noderoles(self.world, self.running, self.now, None):
            self._write(transaction)

    def _write(self, changes: Sequence[object]) -> None:
        for change in changes:
            at = parse(getattr(change, "path", ""))
            record = getattr(change, "data", None)
            if at is not None and at.below and record is not None:
                version = change.version + 1 if isinstance(change, Set) else 0
                self.world.put_noderole(at.name, at.below, record, version)

    def decide(self) -> TaskRunDecision:
        """What a driver that has just taken over decides, written."""
        decision = decide(self.world, self.running, self.now)
        for move in decision.moves:
            for changes in commands.apply_to(self.world, list(move.vertices), move.event, self.now, None, move.reason):
                assert changes
                self._write(changes)
        for vertex, record in decision.rewritten.items():
            self._write(claim.writes(vertex, record))
        for vertex, record in settle({}, self.now, also=list(decision.rewritten)).items():  # as any annealer does
            self._write(claim.writes(vertex, record))
        self.running = replace(self.running, head=decision.head)
        return decision

    def work(self, chance: Random) -> bool:
        """One annealer begins or ends one task; whether there was any to begin or end."""
        self.now += 1.0
        free = [
            vertex
            for vertex in self.world.vertices()
            if vertex.record.state is State.TRANSITION or runnable(self.world, vertex, self.now, ["noop"])
        ]
        if not free:
            return False
        vertex = chance.choice(sorted(free, key=lambda each: each.name))
        if vertex.record.state is State.TRANSITION:
            at = next(at for at in range(len(self.running.plan)) if self.running.noderole(at) == vertex.name)
            failed = self.failing.get(at, 0) > 0 or vertex.record.cancel_reason
            event = Event.FAIL if failed else Event.SUCCEED
            self.ended[vertex.name] = self.now
        else:
            event = Event.CLAIM
            assert vertex.name not in self.started, "nothing is run twice"
            self.started[vertex.name] = self.now
        for moved, record in apply(
            {vertex: event}, self.now, reason="told to" if event is Event.FAIL else None
        ).items():
            self.world.put_noderole(moved.node.name, moved.role, record, moved.version + 1)
        return True

    def to_the_end(self, seed: int, stop_after: int | None = None) -> list[HistoryRow]:
        chance = Random(seed)
        for step in range(10_000):
            if stop_after == step:
                self.running = replace(self.running, head=replace(self.running.head, stop="asked", stopped_by="me"))
            if chance.random() < 0.5 or not self.work(chance):
                before = self.running.head
                decision = self.decide()
                if decision.record:
                    break
                if decision.head == before and not decision.moves and not decision.rewritten and not self.work(chance):
                    raise AssertionError(f"it is stuck: {[(v.name, v.record.state) for v in self.world.vertices()]}")
        look = RunStatus(self.world, self.running, self.now)
        rows = list(history.rows(look, {}))
        self.running = replace(self.running, head=history.ended(self.running, look, rows, self.now))
        return rows


def outcomes(rows: Sequence[HistoryRow]) -> dict[str, str]:
    return {row.task: row.outcome for row in rows}


@given(plans(), st.integers(0, 2**30))
def test_every_order_of_annealers_and_drivers_ends_well(plan: TaskPlan, seed: int) -> None:
    there = Simulated(plan)
    rows = there.to_the_end(seed)
    assert set(outcomes(rows).values()) == {Outcome.SUCCESSFUL}
    assert there.running.head.state is TaskRunState.SUCCESSFUL
    assert len(there.started) == len(plan), "each ran once"
    for before, after in plan.edges():
        assert there.ended[there.running.noderole(before)] < there.started[there.running.noderole(after)]


@given(plans(), st.data(), st.integers(0, 2**30))
def test_every_task_ends_in_one_outcome_whatever_fails(plan: TaskPlan, data: st.DataObject, seed: int) -> None:
    real = [at for at in range(len(plan)) if plan.nodes[plan.node_of[at]]]
    failing = data.draw(st.sets(st.sampled_from(real), max_size=3))
    there = Simulated(plan, dict.fromkeys(failing, 1))
    rows = there.to_the_end(seed)
    assert {row.outcome for row in rows} <= set(Outcome)
    found = outcomes(rows)
    ran = {at for at in range(len(plan)) if there.running.noderole(at) in there.started}
    assert {f"t{at}" for at in ran & failing} == {task for task, outcome in found.items() if outcome == Outcome.FAILED}
    assert {f"t{at}" for at in ran - failing} == {
        task for task, outcome in found.items() if outcome == Outcome.SUCCESSFUL
    }
    assert all(row.reason for row in rows if row.outcome in (Outcome.NOT_RUN, Outcome.FAILED)), "each says why"
    assert there.running.head.state is (TaskRunState.FAILED if ran & failing else TaskRunState.SUCCESSFUL)
    for at in ran & failing:  # a failed task fails its node, and nothing of what needs it runs
        node, end = plan.node_of[at], there.ended[there.running.noderole(at)]
        later = [other for other in ran if plan.node_of[other] == node and other != at]
        assert all(there.started[there.running.noderole(other)] < end for other in later)
    for before, after in plan.edges():
        assert after not in ran or found[f"t{before}"] == Outcome.SUCCESSFUL
    assert not any(v.record.state in (State.TODO, State.BLOCKED, State.TRANSITION) for v in there.world.vertices())


@given(plans(), st.integers(0, 2**30), st.integers(0, 20))
def test_a_run_that_is_stopped_leaves_nothing_waiting(plan: TaskPlan, seed: int, after: int) -> None:
    there = Simulated(plan)
    rows = there.to_the_end(seed, stop_after=after)
    ran = {row.task for row in rows if row.outcome == Outcome.SUCCESSFUL}
    assert len(ran) == len(there.started), "what had begun was ended"
    assert there.running.head.state in (TaskRunState.STOPPED, TaskRunState.SUCCESSFUL)
    assert all(row.reason == "stopped by me" for row in rows if row.outcome == Outcome.NOT_RUN)


def two_nodes_and_a_stage() -> TaskPlan:
    """t0@n0, t1@n1, then the barrier t2, then t3@n0 and t4@n1; t5@n2 with neither."""
    return plan_of(3, [[], [], [0, 1], [2], [2], []], [0, 1, 3, 0, 1, 2])


def test_a_stage_goes_on_without_the_nodes_that_a_tolerance_bears() -> None:
    there = Simulated(two_nodes_and_a_stage(), {1: 1}, tolerances=(Tolerance("g", 1, ("n0.x.y", "n1.x.y")),))
    found = outcomes(there.to_the_end(1))
    assert found == {
        "t0": "successful", "t1": "failed", "t2": "successful", "t3": "successful", "t4": "not run", "t5": "successful",
    }  # fmt: skip
    assert there.running.head.state is TaskRunState.SUCCESSFUL
    assert there.running.head.reason == "failed, as their groups tolerate: n1.x.y"


def test_without_a_tolerance_a_stage_is_not_passed_and_the_rest_goes_on() -> None:
    there = Simulated(two_nodes_and_a_stage(), {1: 1})
    rows = there.to_the_end(1)
    found = outcomes(rows)
    assert (found["t2"], found["t3"], found["t5"]) == ("not run", "not run", "successful")
    assert {row.task: row.reason for row in rows}["t3"] == "lab.t1@n1.x.y failed"
    assert there.running.head.state is TaskRunState.FAILED


def test_more_failures_than_a_tolerance_bears_end_the_run() -> None:
    plan = plan_of(2, [[], [], [1]], [0, 1, 1])
    there = Simulated(plan, {0: 1}, tolerances=(Tolerance("g", 0, ("n0.x.y",)),))
    for seed in range(10):
        there = Simulated(plan, {0: 1}, tolerances=(Tolerance("g", 0, ("n0.x.y",)),))
        rows = there.to_the_end(seed)
        assert there.running.head.state is TaskRunState.FAILED
        assert there.running.head.reason == "of group g 1 node failed, and 0 may: n0.x.y"
        late = [row for row in rows if row.outcome == Outcome.NOT_RUN]
        assert all(row.reason == there.running.head.reason for row in late)


def test_a_task_that_may_fail_is_let_pass() -> None:
    plan = plan_of(1, [[], [0]], [0, 0])
    there = Simulated(plan, {0: 1})
    definition = replace(there.running.definitions["t0"], fail_on_error=False)
    there.running = replace(there.running, definitions={**there.running.definitions, "t0": definition})
    found = outcomes(there.to_the_end(1))
    assert found["t1"] == "successful"
    assert there.running.head.state is TaskRunState.SUCCESSFUL


def test_a_stage_that_asks_only_for_ends_is_passed_when_all_before_it_have_ended() -> None:
    there = Simulated(two_nodes_and_a_stage(), {1: 1})
    definition = replace(there.running.definitions["t2"], all_done=True)
    there.running = replace(there.running, definitions={**there.running.definitions, "t2": definition})
    found = outcomes(there.to_the_end(1))
    assert (found["t3"], found["t4"]) == ("successful", "not run"), "the node that failed does nothing more"


def test_a_machine_that_is_away_for_longer_than_the_run_s_patience_has_failed() -> None:
    there = Simulated(plan_of(2, [[], [], [0, 1]], [0, 1, 2]), patience_seconds=50.0)
    there.world.put_node("n1.x.y", Node(deployment=LAB, alive=False, since=100.0, reason="connect: refused"), 1)
    chance = Random(1)
    while there.work(chance) or there.decide().moves:
        pass
    there.decide()
    assert there.running.head.state is TaskRunState.RUNNING
    assert there.decide().due == 150.0
    there.now = 151.0
    found = outcomes(there.to_the_end(1))
    assert found == {"t0": "successful", "t1": "not run", "t2": "not run"}
    assert there.running.head.reason == "t1@n1.x.y was not run: node n1.x.y does not answer: connect: refused"


def test_a_stop_that_came_when_all_was_done_takes_nothing_from_the_run() -> None:
    there = Simulated(plan_of(1, [[]], [0]))
    chance = Random(1)
    while there.running.head.state is not TaskRunState.ENDING:
        there.decide()
        there.work(chance)
    there.running = replace(there.running, head=replace(there.running.head, stop="asked", stopped_by="me"))
    there.to_the_end(1)
    assert there.running.head.state is TaskRunState.SUCCESSFUL


def test_the_virtual_node_of_another_deployment_is_not_taken() -> None:
    there = Simulated(plan_of(1, [[]], [0]))
    assert roles.of_virtual_node(there.world, BARRIERS, LAB, 1.0) == []
    with pytest.raises(Conflict, match="is of deployment lab now"):
        roles.of_virtual_node(there.world, BARRIERS, "lab-1", 1.0)


def test_no_machine_is_away_for_too_long_while_the_deployment_is_paused_and_its_patience_begins_anew_afterwards() -> (
    None
):
    there = Simulated(plan_of(2, [[], [], [0, 1]], [0, 1, 2]), patience_seconds=50.0)
    there.world.put_node("n1.x.y", Node(deployment=LAB, alive=False, since=100.0, reason="connect: refused"), 1)
    pause = Maintenance(by="ann", reason="switch", since=100.0, until=5000.0)
    there.world.put(Stored(Deployment(state=DeploymentState.COMMITTED, pause=pause), 1), LAB)
    for _ in range(10):
        there.decide()
    assert there.running.head.aside == "by ann until 1970-01-01T01:23:20Z: switch"
    there.now = 4999.0
    assert (there.decide().due, there.running.head.away) == (5000.0, ())
    there.now = 5000.0
    there.decide()
    assert (there.running.head.aside, there.running.head.resumed) == (None, 5000.0)
    assert there.decide().due == 5050.0
    there.now = 5051.0
    there.decide()
    assert there.running.head.away == ("n1.x.y",)
