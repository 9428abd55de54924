"""The files that tasks name and that annealers with this host's configuration would refuse to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit import session
from nodepool_ocb.documents.allowed import Allowed, Outside
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.plan import Plan
from nodepool_ocb.tasks.sources import sources
from nodepool_ocb.tasks.tasklist import Task, TaskList

if TYPE_CHECKING:
    from nodepool_ocb.tasks.reading import Reading


def warned(found: Reading) -> Reading:
    """The list, with a warning for each file that would be refused."""
    from nodepool_ocb.tasks.reading import Reading

    more = _warnings((task, task.parameters) for task in found.tasks.tasks)
    return Reading(found.tasks, (*found.warnings, *more))


def of_plan(plan: Plan, tasks: TaskList) -> list[str]:
    """A warning for each file that would be refused in the tasks that a plan runs."""
    return _warnings(_running(plan, tasks))


def _running(plan: Plan, tasks: TaskList) -> Iterator[tuple[Task, Mapping[str, Json]]]:
    for vertex, number in enumerate(plan.task_of):
        task = tasks.by_id.get(plan.tasks[number])
        if task is not None and vertex not in plan.skipped:
            yield task, {**task.parameters, **plan.parameters.get(vertex, {})}


def _warnings(given: Iterable[tuple[Task, Mapping[str, Json]]]) -> list[str]:
    named = {(task.id, src): task.place for task, parameters in given for src in sources(task.kind, parameters)}
    if not named:
        return []
    from nodepool_ocb.config import task_sources

    allowed = task_sources(session.settings())
    return [
        f"{place}: {name}: src {why}; annealers refuse it, unless tasks.sources in their configuration has its directory"
        for (name, src), place in named.items()
        if (why := _refusal(allowed, src))
    ]


def _refusal(allowed: Allowed, src: str) -> str | None:
    try:
        allowed.resolve(src)
    except Outside as outside:
        return str(outside)
    return None
