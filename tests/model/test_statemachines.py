"""Every pair of state and event of every table, written out once more: a pair that is not here is refused."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import deployments
from nodepool_ocb.errors import Conflict
from nodepool_ocb.images import states as images
from nodepool_ocb.model.records import Deployment, DeploymentState
from nodepool_ocb.model.statemachines import StateMachine
from nodepool_ocb.tasks.runs import states as tasks
from nodepool_ocb.tasks.runs.records import RunState, TaskRun

#: By state ("-" before the record exists): each event that is possible, and the state after it.
TABLES: Final[list[tuple[StateMachine[Any, Any], str]]] = [
    (
        images.BUILDS,
        """
        -: BEGIN building, IMPORT_READY ready, IMPORT_FAILED failed
        building: SUCCEED ready, FAIL failed, ABANDON aborted, DELETE delete
        ready: RESUME building, SPOIL failed, RETIRE delete, DELETE delete
        failed: RESUME building, DELETE delete
        aborted: RESUME building, DELETE delete
        """,
    ),
    (
        images.UPLOADS,
        """
        -: SEND uploading, IMPORT_READY ready
        uploading: SUCCEED ready, FAIL failed, ABANDON failed, SPOIL delete, RETIRE delete, DELETE delete
        ready: SUCCEED ready, SPOIL delete, RETIRE delete, DELETE delete
        failed: SEND uploading, SUCCEED ready, FAIL failed, SPOIL delete, RETIRE delete, DELETE delete
        delete: SUCCEED delete, FAIL delete, SPOIL delete
        """,
    ),
    (
        tasks.TASK_RUNS,
        """
        -: BEGIN committing
        committing: COMMIT running, STOP stopping
        running: STOP stopping, EXCEED stopping, REST ending
        stopping: REST ending
        ending: SUCCEED successful, FAIL failed, HALT stopped
        successful: REOPEN committing
        failed: REOPEN committing
        stopped: REOPEN committing
        """,
    ),
    (
        deployments.DEPLOYMENTS,
        """
        -: CREATE PROPOSED, INIT COMMITTED
        PROPOSED: COMMIT COMMITTED
        COMMITTED: PROPOSE PROPOSED
        """,
    ),
]


@pytest.mark.parametrize(("machine", "text"), TABLES, ids=lambda each: getattr(each, "thing", ""))
def test_the_table_has_these_pairs_and_refuses_all_others(machine: StateMachine[Any, Any], text: str) -> None:
    expected = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        state, _, moves = line.partition(": ")
        for event, after in (move.split(" ", 1) for move in moves.split(", ")):
            expected[None if state == "-" else machine.states(state), machine.events(event)] = machine.states(after)
    for before, event in itertools.product([None, *machine.states], machine.events):
        if (before, event) in expected:
            assert machine.to(before, event) is expected[before, event]
        else:
            with pytest.raises(Conflict, match=f"cannot (begin by )?{event}"):
                machine.to(before, event)


@pytest.mark.parametrize("event", tasks.TaskRunEvent)
@pytest.mark.parametrize("state", RunState)
def test_an_event_changes_the_state_of_a_run_of_tasks_and_the_given_fields(
    state: RunState, event: tasks.TaskRunEvent
) -> None:
    before = TaskRun(state=state, virtual="v", reason="before", unknown={"later": 1})
    if (state, event) in tasks.TASK_RUNS.after:
        expected = replace(before, state=tasks.TASK_RUNS.after[state, event], reason="why")
        assert tasks.task_run_after(before, event, reason="why") == expected
    else:
        with pytest.raises(Conflict, match=f"a run of tasks in {state} cannot {event}"):
            tasks.task_run_after(before, event, reason="why")


@pytest.mark.parametrize("event", deployments.DeploymentEvent)
@pytest.mark.parametrize("state", DeploymentState)
def test_an_event_changes_the_state_of_a_deployment_the_time_and_the_author(
    state: DeploymentState, event: deployments.DeploymentEvent
) -> None:
    before = Deployment(state=state, since=1.0, by="bob", unknown={"later": 1})
    if (state, event) in deployments.DEPLOYMENTS.after:
        expected = replace(before, state=deployments.DEPLOYMENTS.after[state, event], since=9.0, by="ann")
        assert deployments.deployment_after(before, event, 9.0, "ann") == expected
    else:
        with pytest.raises(Conflict, match=f"a deployment in {state} cannot {event}"):
            deployments.deployment_after(before, event, 9.0, "ann")


@pytest.mark.parametrize("machine", [machine for machine, _ in TABLES], ids=lambda each: str(each.thing))
def test_every_state_is_reached_and_every_event_has_an_effect(machine: StateMachine[Any, Any]) -> None:
    reached = {None}
    for _ in machine.states:
        reached |= {after for (before, _), after in machine.after.items() if before in reached}
    assert reached == {None, *machine.states}
    assert {event for _, event in machine.after} == set(machine.events)
