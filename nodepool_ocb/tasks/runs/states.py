"""The state machine of a run of tasks: one table, and the functions that apply it.

- BEGIN makes the record. The driver commits the noderoles of the run, then COMMIT.
- STOP follows from the ``stop`` that a person set in the record, EXCEED from more failures than the tolerances of the run bear.
  After both, no further task begins.
- REST: no noderole of the run moves any more. The driver then takes back the tasks that did not run, and writes the history.
- SUCCEED, FAIL or HALT ends the run, by its history.
- REOPEN: a person resumed or retried the rollout of a run that is over, or accepted a failure in it.

The driver decides each event but BEGIN and REOPEN (deciding.py, history.py). Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.model.statemachines import StateMachine
from nodepool_ocb.tasks.runs.records import TaskRun, TaskRunState


class TaskRunEvent(StrEnum):
    """The events of a run of tasks."""

    BEGIN = "BEGIN"  # a person begins it; its noderoles are bound
    COMMIT = "COMMIT"  # every noderole is committed; of a run that a rollout sends, those of its stages and barriers
    STOP = "STOP"  # a person stopped it
    EXCEED = "EXCEED"  # more nodes failed than its tolerances bear
    REST = "REST"  # no noderole of it moves any more
    SUCCEED = "SUCCEED"  # the history is written: all tasks that were to run succeeded, or their failures are tolerated
    FAIL = "FAIL"  # the history is written: a task failed, or was not run
    HALT = "HALT"  # the history is written: the run was stopped, and a task failed, or was not run
    REOPEN = "REOPEN"  # its rollout goes on after its end


TASK_RUNS: Final = StateMachine(
    "a run of tasks",
    TaskRunState,
    TaskRunEvent,
    {
        (None, TaskRunEvent.BEGIN): TaskRunState.COMMITTING,
        (TaskRunState.COMMITTING, TaskRunEvent.COMMIT): TaskRunState.RUNNING,
        (TaskRunState.COMMITTING, TaskRunEvent.STOP): TaskRunState.STOPPING,
        (TaskRunState.RUNNING, TaskRunEvent.STOP): TaskRunState.STOPPING,
        (TaskRunState.RUNNING, TaskRunEvent.EXCEED): TaskRunState.STOPPING,
        (TaskRunState.RUNNING, TaskRunEvent.REST): TaskRunState.ENDING,
        (TaskRunState.STOPPING, TaskRunEvent.REST): TaskRunState.ENDING,
        (TaskRunState.ENDING, TaskRunEvent.SUCCEED): TaskRunState.SUCCESSFUL,
        (TaskRunState.ENDING, TaskRunEvent.FAIL): TaskRunState.FAILED,
        (TaskRunState.ENDING, TaskRunEvent.HALT): TaskRunState.STOPPED,
        (TaskRunState.SUCCESSFUL, TaskRunEvent.REOPEN): TaskRunState.COMMITTING,
        (TaskRunState.FAILED, TaskRunEvent.REOPEN): TaskRunState.COMMITTING,
        (TaskRunState.STOPPED, TaskRunEvent.REOPEN): TaskRunState.COMMITTING,
    },
)


def new_task_run(event: TaskRunEvent, **fields: Any) -> TaskRun:
    """The record that an event makes. ``fields``: its other keys. Raises Conflict if the event makes none."""
    return TaskRun(state=TASK_RUNS.to(None, event), **fields)


def task_run_after(head: TaskRun, event: TaskRunEvent, **fields: Any) -> TaskRun:
    """The record after an event. ``fields``: the other keys that change. Raises Conflict if the table has no such pair."""
    return replace(head, state=TASK_RUNS.to(head.state, event), **fields)
