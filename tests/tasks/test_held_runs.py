"""Runs whose tasks a rollout commits: what their driver leaves to it, and when they end."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from nodepool_ocb.engine import commands
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import RolloutPointer, State
from nodepool_ocb.tasks.runs import commands as runcommands
from nodepool_ocb.tasks.runs import history
from nodepool_ocb.tasks.runs.records import TaskRunState, Tolerance
from nodepool_ocb.tasks.runs.status import RunStatus
from tests.tasks.test_run_simulation import LAB, Simulated, outcomes, plan_of, two_nodes_and_a_stage

ROLLOUT = "0000000007"


def held(there: Simulated, rollout: str | None = ROLLOUT, *, over: bool = False) -> Simulated:
    """Its rollout is under way, or over; None: it has not begun."""
    there.running = replace(there.running, head=replace(there.running.head, held=True, rollout=rollout))
    there.world.put(Stored(RolloutPointer(newest=ROLLOUT, over=over), 0), LAB)
    return there


def settle(there: Simulated) -> None:
    """Until neither the driver nor an annealer has anything to do."""
    for _ in range(200):
        before = there.running.head
        decision = there.decide()
        if decision.record or (
            decision.head == before and not decision.moves and not decision.rewritten and not there.work(Random(1))
        ):
            return
    raise AssertionError("it does not come to rest")


def send(there: Simulated, *names: str, event: Event = Event.COMMIT) -> None:
    vertices = [vertex for name in names if (vertex := there.world.vertex(name)) is not None]
    for changes in commands.apply_to(there.world, vertices, event, there.now):
        assert changes
        advance(there.world, changes)


def states(there: Simulated) -> dict[str, State]:
    return {vertex.role.partition(".")[2]: vertex.record.state for vertex in there.world.vertices()}


def rows(there: Simulated) -> dict[str, str]:
    return outcomes(list(history.rows(RunStatus(there.world, there.running, there.now), {})))


def test_only_stages_are_committed_and_the_run_waits_for_its_rollout() -> None:
    for rollout in (None, ROLLOUT):
        there = held(Simulated(two_nodes_and_a_stage()), rollout)
        settle(there)
        found = states(there)
        assert found.pop("t2") is State.BLOCKED
        assert set(found.values()) == {State.PROPOSED}
        assert there.running.head.state is TaskRunState.RUNNING
        assert set(rows(there).values()) == {"pending"}


def test_what_waits_on_a_node_that_failed_is_left_to_the_rollout_which_may_retry_it() -> None:
    there = held(Simulated(plan_of(1, [[], [0]], [0, 0]), {0: 1}))
    settle(there)
    send(there, "lab.t0@n0.x.y", "lab.t1@n0.x.y")
    settle(there)
    assert states(there) == {"t0": State.ERROR, "t1": State.BLOCKED}
    assert there.running.head.state is TaskRunState.RUNNING
    there.failing = {}
    del there.started["lab.t0@n0.x.y"]
    send(there, "lab.t0@n0.x.y", event=Event.RETRY)
    settle(there)
    assert set(states(there).values()) == {State.ACTIVE}
    assert there.running.head.state is TaskRunState.RUNNING, "until its rollout is over"


def test_a_run_ends_with_its_rollout_and_says_what_was_not_sent() -> None:
    there = held(Simulated(two_nodes_and_a_stage(), {0: 1}))
    settle(there)
    send(there, "lab.t0@n0.x.y")
    settle(there)
    held(there, over=True)
    settle(there)
    assert there.running.head.state is TaskRunState.ENDING
    found = {row.task: row for row in history.rows(RunStatus(there.world, there.running, there.now), {})}
    assert (found["t0"].outcome, found["t1"].outcome, found["t2"].outcome) == ("failed", "not run", "not run")
    assert found["t1"].reason == f"rollout lab/{ROLLOUT} did not send it"


def test_another_rollout_is_not_its_own() -> None:
    there = held(Simulated(plan_of(1, [[]], [0])), "0000000006")
    settle(there)
    assert there.running.head.state is TaskRunState.ENDING


def test_a_stage_goes_on_without_nodes_that_the_criteria_bear_and_the_run_does_not_end_where_they_do_not() -> None:
    members = ("n0.x.y", "n1.x.y")
    for most, wanted in ((1, State.ACTIVE), (0, State.BLOCKED)):
        there = held(Simulated(two_nodes_and_a_stage(), {1: 1}, tolerances=(Tolerance("g", most, members),)))
        settle(there)
        send(there, "lab.t0@n0.x.y", "lab.t1@n1.x.y", "lab.t4@n1.x.y")
        settle(there)
        assert states(there)["t2"] is wanted
        assert there.running.head.state is TaskRunState.RUNNING


def test_a_run_that_goes_on_waits_again_for_what_the_plan_says() -> None:
    there = held(Simulated(two_nodes_and_a_stage(), {0: 1}))
    settle(there)
    send(there, "lab.t0@n0.x.y", "lab.t1@n1.x.y")
    settle(there)
    held(there, over=True)
    settle(there)
    stage = there.world.vertex(there.running.noderole(2))
    assert stage is not None
    assert (stage.record.state, stage.record.parents) == (State.PROPOSED, ())
    for changes in runcommands.waiting_again(there.world, there.running):
        there._write(changes)
    stage = there.world.vertex(there.running.noderole(2))
    assert stage is not None
    assert stage.record.parents == ("lab.t0@n0.x.y", "lab.t1@n1.x.y")
    again = replace(there.running.head, state=TaskRunState.COMMITTING)
    there.running, there.failing = replace(there.running, head=again), {}
    held(there)
    del there.started["lab.t0@n0.x.y"]
    send(there, "lab.t0@n0.x.y", event=Event.RETRY)
    send(there, *(f"lab.t{at}@n{node}.x.y" for at, node in ((3, 0), (4, 1), (5, 2))))
    settle(there)
    assert set(states(there).values()) == {State.ACTIVE}
    for before, after in there.running.plan.edges():
        assert there.ended[there.running.noderole(before)] < there.started[there.running.noderole(after)]


def test_what_has_not_begun_on_a_node_that_failed_keeps_no_stage_from_going_on_that_bears_it() -> None:
    """t1 and t2 are on n1, and t1 fails; t0 on n0 does well; the stage t3 waits for all three."""
    plan = plan_of(2, [[], [], [], [0, 1, 2]], [0, 1, 1, 2])
    there = held(Simulated(plan, {1: 1}, tolerances=(Tolerance("g", 1, ("n0.x.y", "n1.x.y")),)))
    settle(there)
    send(there, "lab.t0@n0.x.y", "lab.t1@n1.x.y", "lab.t2@n1.x.y")
    settle(there)
    assert states(there) == {"t0": State.ACTIVE, "t1": State.ERROR, "t2": State.TODO, "t3": State.ACTIVE}


def test_a_run_does_not_end_while_the_record_of_a_task_cannot_be_read() -> None:
    """A driver that took over has never seen that noderole."""
    there = Simulated(plan_of(1, [[], [0]], [0, 0]))
    settle_until_running(there)
    assert [there.work(Random(1)), there.work(Random(1))] == [True, True], "the first task is done"
    name = "lab.t1@n0.x.y"
    vertex = there.world.vertex(name)
    assert vertex is not None
    record, version = vertex.record, vertex.version
    path = paths.noderole(*paths.split_noderole(name))
    there.world.drop_noderole("n0.x.y", "lab.t1")
    there.world.unreadable[path] = "it is garbage"
    settle(there)
    assert there.running.head.state is TaskRunState.RUNNING
    del there.world.unreadable[path]
    there.world.put_noderole("n0.x.y", "lab.t1", record, version)
    settle(there)
    assert there.running.head.state is TaskRunState.ENDING
    assert there.decide().record
    assert set(rows(there).values()) == {"successful"}


def settle_until_running(there: Simulated) -> None:
    while there.running.head.state is TaskRunState.COMMITTING:
        there.decide()
