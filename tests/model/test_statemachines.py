"""Every pair of state and event of every table, written out once more: a pair that is not here is refused."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import deployments
from nodepool_ocb.errors import Conflict
from nodepool_ocb.images import states as images
from nodepool_ocb.model.records import Deployment, DeploymentState
from nodepool_ocb.model.statemachines import StateMachine
from nodepool_ocb.rollout.records import GroupRecord, GroupState, NodeState, Progress, RolloutRecord, RolloutState
from nodepool_ocb.rollout.states import groups, members, rollouts
from nodepool_ocb.rollout.strategy import Group, Strategy
from nodepool_ocb.tasks.runs import states as tasks
from nodepool_ocb.tasks.runs.records import TaskRun, TaskRunState

ROOT: Final = Path(__file__).parents[2]

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
        rollouts.ROLLOUTS,
        """
        -: BEGIN running
        running: STOP stopping, GIVE_UP cancelling, TRIP cancelling, CANCEL cancelling, SUCCEED success, FAIL failed
        stopping: GIVE_UP cancelling, TRIP cancelling, CANCEL cancelling, SUCCEED success, FAIL failed, RESUME running
        cancelling: CANCEL cancelling, FAIL failed, CANCELLED cancelled
        success: RETRY running, ACCEPT running
        failed: RESUME running, RETRY running, ACCEPT running
        cancelled: RESUME running, RETRY running
        """,
    ),
    (
        groups.GROUPS,
        """
        -: PLAN not started
        not started: START running, FAIL failed
        running: PAUSE paused, NEXT running, SUCCEED success, FAIL failed
        paused: NEXT running, FAIL failed
        success: RETRY not started
        failed: REOPEN not started, RETRY not started
        """,
    ),
    (
        members.MEMBERS,
        """
        -: ENTER not started
        not started: SEND sending
        sending: SENT sent, PASS prepared, FINISH success, FAIL failure, TIME_OUT unknown
        sending: RECALL not started, RECALL_PREPARED prepared
        sent: PASS prepared, FINISH success, FAIL failure, TIME_OUT unknown, RECALL not started, RECALL_PREPARED prepared
        prepared: SEND sending
        failure: RETRY not started, RETRY_PREPARED prepared
        unknown: PASS prepared, FINISH success, FAIL failure
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
@pytest.mark.parametrize("state", TaskRunState)
def test_an_event_changes_the_state_of_a_run_of_tasks_and_the_given_fields(
    state: TaskRunState, event: tasks.TaskRunEvent
) -> None:
    before = TaskRun(state=state, virtual="v", reason="before", unknown={"later": 1})
    if (state, event) in tasks.TASK_RUNS.after:
        expected = replace(before, state=tasks.TASK_RUNS.after[state, event], reason="why")
        assert tasks.task_run_after(before, event, reason="why") == expected
    else:
        with pytest.raises(Conflict, match=f"a run of tasks in {state} cannot {event}"):
            tasks.task_run_after(before, event, reason="why")


@pytest.mark.parametrize(("state", "event"), [pair for pair in rollouts.ROLLOUTS.after if pair[0] is not None])
def test_an_event_changes_the_state_of_a_rollout_the_time_and_the_given_fields(
    state: RolloutState, event: rollouts.RolloutEvent
) -> None:
    before = RolloutRecord(
        strategy=Strategy(groups=()), groups=(), nodes=0, inventory="", state=state, since=1.0, started=1.0
    )
    expected = replace(before, state=rollouts.ROLLOUTS.after[state, event], since=9.0, by="ann")
    assert rollouts.rollout_after(before, event, 9.0, by="ann") == expected


@pytest.mark.parametrize(("state", "event"), [pair for pair in groups.GROUPS.after if pair[0] is not None])
def test_an_event_changes_the_state_of_a_group_and_the_time_with_it(
    state: GroupState, event: groups.GroupEvent
) -> None:
    before = GroupRecord(group=Group(name="g"), state=state, since=1.0)
    then = groups.GROUPS.after[state, event]
    expected = replace(before, state=then, since=1.0 if then is state else 9.0, detail="why")
    assert groups.group_after(before, event, 9.0, detail="why") == expected


@pytest.mark.parametrize(("state", "event"), [pair for pair in members.MEMBERS.after if pair[0] is not None])
def test_an_event_changes_the_state_of_a_member_and_the_time_unless_it_was_sent(
    state: NodeState, event: members.MemberEvent
) -> None:
    before = Progress(state=state, since=1.0, passed=1)
    time = 1.0 if event is members.MemberEvent.SENT else 9.0
    expected = replace(before, state=members.MEMBERS.after[state, event], since=time, reason="why")
    assert members.member_after(before, event, 9.0, reason="why") == expected


def test_a_member_is_put_back_to_the_phases_that_it_has_passed() -> None:
    sent, lost = Progress(state=NodeState.SENT), Progress(state=NodeState.FAILURE)
    recall, retry = members.MemberEvent.RECALL, members.MemberEvent.RETRY
    assert members.put_back(sent, recall, 9.0).state is NodeState.NOT_STARTED
    assert members.put_back(replace(sent, passed=1), recall, 9.0).state is NodeState.PREPARED
    assert members.put_back(lost, retry, 9.0).state is NodeState.NOT_STARTED
    assert members.put_back(replace(lost, passed=1), retry, 9.0).state is NodeState.PREPARED


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
def test_every_event_has_a_writer(machine: StateMachine[Any, Any]) -> None:
    for event in machine.events:
        named = named_events()[f"{machine.events.__name__}.{event.name}"]
        in_table = sum(each is event for _, each in machine.after)
        assert named > in_table, f"no code applies {event!r}"


@cache
def named_events() -> Counter[str]:
    """How often the code of the product says ``Class.NAME``."""
    files = (file for folder in ("nodepool_ocb", "annealer", "builder") for file in (ROOT / folder).rglob("*.py"))
    return Counter(name for file in files for name in re.findall(r"\b[A-Z]\w*\.[A-Z]\w*\b", file.read_text()))


@pytest.mark.parametrize("machine", [machine for machine, _ in TABLES], ids=lambda each: str(each.thing))
def test_every_state_is_reached_and_every_event_has_an_effect(machine: StateMachine[Any, Any]) -> None:
    reached = {None}
    for _ in machine.states:
        reached |= {after for (before, _), after in machine.after.items() if before in reached}
    assert reached == {None, *machine.states}
    assert {event for _, event in machine.after} == set(machine.events)
