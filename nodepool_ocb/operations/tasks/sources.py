"""Warnings about the files that tasks name and that annealers with the performer's configuration would refuse to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.tasks.lists import ReadRefusedSources
from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.sources import sources
from nodepool_ocb.tasks.tasklist import Task, TaskList

READS = (ReadRefusedSources,)

NamedSources = Mapping[tuple[str, str], str]  # (task, file) → the place of the task


def of_list(tasks: TaskList) -> NamedSources:
    """The files that the tasks of a list name."""
    return _named((task, task.parameters) for task in tasks.tasks)


def of_plan(plan: TaskPlan, tasks: TaskList) -> NamedSources:
    """The files that the tasks that a plan runs name."""
    return _named(_running(plan, tasks))


def _running(plan: TaskPlan, tasks: TaskList) -> Iterator[tuple[Task, Mapping[str, Json]]]:
    """Each task with its parameters, and with those that differ on a node."""
    plain: set[int] = set()
    for vertex, number in enumerate(plan.task_of):
        own = plan.parameters.get(vertex)
        if vertex in plan.skipped or (own is None and number in plain):
            continue
        task = tasks.by_id.get(plan.tasks[number])
        if own is None:
            plain.add(number)
        if task is not None:
            yield task, {**task.parameters, **(own or {})}


def _named(given: Iterable[tuple[Task, Mapping[str, Json]]]) -> NamedSources:
    return {(task.id, src): task.place for task, parameters in given for src in sources(task.kind, parameters)}


def warnings(named: NamedSources) -> Steps[list[str]]:
    """A warning for each file that would be refused."""
    if not named:
        return []
    refused = yield from ReadRefusedSources(frozenset(src for _, src in named))
    return sentences(named, refused)


def sentences(named: NamedSources, refused: Mapping[str, str]) -> list[str]:
    """A warning for each file that is ``refused``: file → reason."""
    return [
        f"{place}: {name}: src {refused[src]}; annealers refuse it, unless tasks.sources in their configuration has its"
        " directory"
        for (name, src), place in named.items()
        if src in refused
    ]
