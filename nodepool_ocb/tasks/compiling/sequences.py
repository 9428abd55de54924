"""Tasks with instances that follow one another over all nodes: hooks of old lists, stages with numbers, strategies of tasks."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from nodepool_ocb.tasks.compiling.draft import depths, sorted_out
from nodepool_ocb.tasks.compiling.groups import Amount, amount
from nodepool_ocb.tasks.compiling.node_order import in_order
from nodepool_ocb.tasks.compiling.placement import ANCHORS, Placement
from nodepool_ocb.tasks.plan import Bears
from nodepool_ocb.tasks.tasklist import Task, TaskKind

DEPLOYED = "deploy"  # the stage at the end of the listings in Fuel's design: a task before it alone is not yet before deployment
#: Between which stages the tasks of an old plugin's ``stage`` are: the first that a list has of each side.
BETWEEN = {
    "pre_deployment": (("pre_deployment_start",), ("pre_deployment_end", "pre_deployment", "deploy_start", "deploy")),
    "deploy": (("deploy_start", "pre_deployment_end", "pre_deployment"), ("deploy_end", "deploy")),
    "post_deployment": (("post_deployment_start", "deploy_end", "deploy"), ("post_deployment_end", "post_deployment")),
}


def line(placement: Placement, tasks: Sequence[int]) -> None:
    """Each of the tasks on all its nodes, then the next."""
    before: list[int] = []
    for task in tasks:
        instances = placement.instances(task)
        placement.draft.order(before, instances, f"{placement.tasks[task].id}.next")
        before = instances or before


def hooks(placement: Placement) -> None:
    """In a list without relations between nodes: put tasks before ``deploy_start`` in line, and those after ``deploy_end``."""
    above, number = placement.relations.above, placement.relations.number
    for stage, ways in (("deploy_start", above), ("deploy_end", _below(placement))):
        if stage in number:
            found = _reached(number[stage], ways)
            line(
                placement,
                [task for task in in_order(sorted(found), above) if placement.tasks[task].kind not in ANCHORS],
            )


def _below(placement: Placement) -> list[set[int]]:
    """For each task, the tasks that wait for it."""
    below: list[set[int]] = [set() for _ in placement.tasks]
    for task, each in enumerate(placement.relations.above):
        for parent in each:
            below[parent].add(task)
    return below


def _reached(start: int, ways: Sequence[Set[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        new = ways[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _staged(placement: Placement) -> dict[str, list[int]]:
    """The tasks that each ``stage: NAME/NUMBER`` holds, by their numbers."""
    stages: dict[str, list[tuple[float, int]]] = {}
    for number, task in enumerate(placement.tasks):
        if task.stage is not None:
            name, _, place = task.stage.partition("/")
            stages.setdefault(name, []).append((_number(place), number))
    return {name: [number for _, number in sorted(found)] for name, found in stages.items()}


def numbered(placement: Placement) -> None:
    """``stage: pre_deployment/20``: the tasks of a stage are in line by their numbers."""
    for tasks in _staged(placement).values():
        line(placement, tasks)


def between(placement: Placement) -> None:
    """``stage: pre_deployment``: the task is between the stages of the list that the name means."""
    for name, tasks in _staged(placement).items():
        instances = [vertex for task in tasks for vertex in placement.instances(task)]
        after, before = BETWEEN.get(name, ((f"{name}_start",), (f"{name}_end", name)))
        for anchor in _first(placement, after):
            placement.draft.after([placement.anchors[anchor].leave], instances)
        for anchor in _first(placement, before):
            placement.draft.relate(instances, [placement.anchors[anchor].enter])
        if name == "pre_deployment" and not _first(placement, [each for each in before if each != DEPLOYED]):
            others = _others(placement, tasks, placement.relations.above)
            _all_before(
                placement, instances, [*_instances(placement, others), *_starts(placement, others)], f"{name}.end"
            )
        if name == "post_deployment" and not _first(placement, after):
            others = _others(placement, tasks, _below(placement))
            _all_before(placement, _instances(placement, others), instances, f"{name}.start")


def _all_before(placement: Placement, before: Sequence[int], after: Sequence[int], name: str) -> None:
    """All of these tasks, then all of those; each of the former is a relation by itself."""
    draft = placement.draft
    if draft.tolerant and before and after:
        gate = draft.barrier(name, (), Bears.NONE)
        draft.relate(before, [gate])
        draft.after([gate], after)
    else:
        draft.order(before, after, name)


def _others(placement: Placement, tasks: Sequence[int], ways: Sequence[Set[int]]) -> list[int]:
    """All tasks and groups that these do not lead to; no stages."""
    near = set(tasks).union(*(_reached(task, ways) for task in tasks))
    return [n for n, task in enumerate(placement.tasks) if n not in near and task.kind is not TaskKind.STAGE]


def _instances(placement: Placement, tasks: Sequence[int]) -> list[int]:
    """The vertices of tasks; groups and stages have none."""
    found = (number for number in tasks if placement.tasks[number].kind not in ANCHORS)
    return [vertex for number in found for vertex in placement.instances(number)]


def _starts(placement: Placement, tasks: Sequence[int]) -> list[int]:
    """The starts of the groups among these tasks: a task before a group is done when the group starts."""
    return [placement.anchors[number].enter for number in tasks if number in placement.anchors]


def _number(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _first(placement: Placement, names: Sequence[str]) -> list[int]:
    """The first of the names that is a stage of the list."""
    numbers = (placement.relations.number.get(name) for name in names)
    return next(([each] for each in numbers if each in placement.anchors), [])


def limited(placement: Placement, amount_of: Amount | None) -> None:
    """A task's strategy: so many instances, then the next, in the order in which they may start, then in listing order.

    All edges lead from less to more above, or on in listing order, so they make no circle, however many tasks are limited.
    """
    sizes = ((n, amount(task, amount_of)) for n, task in enumerate(placement.tasks) if _limits(task))
    limits = [(task, size) for task, size in sizes if size]  # without one, all instances run at once
    draft = placement.draft
    above = depths(draft.parents, sorted_out(draft.parents)) if limits else []
    for task, size in limits:
        found = sorted(placement.instances(task), key=lambda vertex: (above[vertex], draft.node_of[vertex]))
        chunks = [found[start : start + size] for start in range(0, len(found), size)]
        for first, second in pairwise(chunks):
            draft.order(first, second, f"{placement.tasks[task].id}.chunk", Bears.ALL)


def _limits(task: Task) -> bool:
    return task.strategy is not None and task.kind is not TaskKind.GROUP
