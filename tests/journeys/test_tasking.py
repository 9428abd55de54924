"""The checker of runs of tasks finds an instance that was done twice, lost, or begun too early."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodepool_ocb.tasks.plan import VIRTUAL, TaskPlan
from nodepool_ocb.tasks.runs.records import Definition, LoadedTaskRun, TaskRun, TaskRunState
from tests.journeys.history import Entry, Event
from tests.journeys.tasking import Note, faults, machine_edges

#: one@m0, a stage behind it, and two@m1 behind the stage.
PLAN = TaskPlan(
    nodes=("m0", "m1", VIRTUAL),
    tasks=("one", "stage", "two"),
    task_of=[0, 1, 2],
    node_of=[0, 2, 1],
    rank=[3, 2, 1],
    parents=[(), (0,), (1,)],
)
FIRST, SECOND = "lab.one@m0", "lab.two@m1"
GENERATIONS = {FIRST: 7, SECOND: 7}


def note(state: TaskRunState = TaskRunState.SUCCESSFUL) -> Note:
    definitions = {name: Definition(name, f"lab.{name}", "shell") for name in PLAN.tasks}
    return Note(
        LoadedTaskRun("lab", "0000000000", TaskRun(state=state, virtual="v"), PLAN, [], definitions), GENERATIONS
    )


def did(time: float, noderole: str, event: Event = Event.ENDED, generation: int = 7) -> Entry:
    code = 0 if event is Event.ENDED else None
    return Entry(time, noderole.partition("@")[2], 1, noderole, generation, f"r{time}", event, code)


def test_an_instance_waits_over_a_stage_for_one_on_another_machine() -> None:
    assert list(machine_edges(note().running)) == [(FIRST, SECOND)]


GOOD = [did(1, FIRST, Event.STARTED), did(2, FIRST), did(3, SECOND, Event.STARTED), did(4, SECOND)]


@pytest.mark.parametrize(
    ("state", "entries", "said"),
    [
        (TaskRunState.SUCCESSFUL, GOOD, ()),
        (TaskRunState.SUCCESSFUL, [*GOOD, did(5, FIRST)], (f"{FIRST} was done 2 times",)),
        (TaskRunState.FAILED, [*GOOD, did(5, SECOND)], (f"{SECOND} was done 2 times",)),
        (TaskRunState.SUCCESSFUL, GOOD[:3], (f"{SECOND} was done 0 times",)),
        (TaskRunState.STOPPED, GOOD[:3], ()),
        (TaskRunState.STOPPED, [GOOD[0], GOOD[2]], (f"{SECOND} began before {FIRST} was done",)),
        (TaskRunState.STOPPED, [did(0.5, SECOND, Event.STARTED), *GOOD], (f"{SECOND} began before {FIRST} was done",)),
        (TaskRunState.STOPPED, [did(0.5, SECOND, Event.STARTED, 6), *GOOD], ()),
    ],
)
def test_what_machines_noted_is_held_against_a_run(
    state: TaskRunState, entries: Sequence[Entry], said: Sequence[str]
) -> None:
    assert faults([note(state)], entries) == [f"tasks run lab/0000000000: {each}" for each in said]
