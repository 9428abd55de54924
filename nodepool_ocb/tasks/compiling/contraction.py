"""A plan without vertices that do not run: skipped ones and needless barriers go, and the order of the others is kept.

If a vertex goes, the vertices before it are tied to those after it, unless that takes more edges than it had. Then it stays as
a barrier. So a plan never gets more edges, and no vertex more than MOST_PARENTS parents.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from itertools import count

from nodepool_ocb.tasks.compiling.draft import MOST_PARENTS, heights, sorted_out
from nodepool_ocb.tasks.plan import Bears, TaskPlan


def contracted(plan: TaskPlan, also: Collection[int] = ()) -> TaskPlan:
    """The same order among the vertices that stay: skipped ones, needless barriers and ``also`` are gone.

    The vertices keep their sequence, and get new numbers. A stage that is not skipped stays. ``skipped`` is empty afterwards.
    """
    goes = bytearray(task in plan.barriers for task in plan.task_of)
    for vertex in (*plan.skipped, *also):
        goes[vertex] = 1
    order = sorted_out(plan.parents)
    parents = _tied(plan.parents, order, goes, _bearing(plan, goes))
    stays = bytearray(not each for each in goes)
    for vertex in reversed(order):
        for each in parents[vertex] if stays[vertex] else ():
            stays[each] = 1
    return _plan(plan, [vertex for vertex, each in enumerate(stays) if each], parents, goes)


def _bearing(plan: TaskPlan, goes: bytearray) -> bytearray:
    """The vertices that do not melt, since they say which tolerated failures are borne: barriers of relations and of chunks.

    Nor does a skipped instance of such a relation: a vertex before it is no part of the relation.
    """
    fixed = bytearray(len(plan))
    for vertex, task in enumerate(plan.task_of):
        bears = plan.bears.get(task, Bears.SOME)
        several = len(plan.parents[vertex]) > 1 or bears is Bears.ALL
        if plan.bears and task in plan.barriers and bears is not Bears.NONE and several:
            fixed[vertex] = 1
            for each in plan.parents[vertex]:
                if goes[each] and plan.parents[each]:
                    fixed[each] = 1
    return fixed


def _tied(
    before: Sequence[Sequence[int]], order: Sequence[int], goes: bytearray, fixed: bytearray
) -> list[Sequence[int]]:
    """The parents of each vertex; a vertex that goes is no parent of another, unless too many edges would replace it."""
    children = _children(before, order, goes)
    parents: list[Sequence[int]] = [()] * len(before)
    melts = bytearray(len(before))
    for vertex in order:
        if not goes[vertex] or children[vertex]:
            above = parents[vertex] = _above(before[vertex], parents, melts)
            ups, downs = len(above), children[vertex]
            melts[vertex] = goes[vertex] and not fixed[vertex] and ups * downs <= ups + downs
    return parents


def _children(parents: Sequence[Sequence[int]], order: Sequence[int], goes: bytearray) -> array[int]:
    """How many children each vertex has that stay, or are above something that stays."""
    children = array("l", bytes(8 * len(parents)))
    for vertex in reversed(order):
        if children[vertex] or not goes[vertex]:
            for each in parents[vertex]:
                children[each] += 1
    return children


def _above(before: Sequence[int], parents: Sequence[Sequence[int]], melts: bytearray) -> Sequence[int]:
    if not any(melts[each] for each in before):
        return before
    found: list[int] = []
    most = len(before)
    for each in before:
        more = len(parents[each]) - 1
        if melts[each] and (more <= 0 or most + more <= MOST_PARENTS):
            most += more
            found += parents[each]
        else:
            found.append(each)
    return list(dict.fromkeys(found))


def _plan(plan: TaskPlan, kept: Sequence[int], parents: Sequence[Sequence[int]], goes: bytearray) -> TaskPlan:
    """The plan of the kept vertices; those of them that are in ``goes`` become barriers on the virtual node."""
    virtual = len(plan.nodes) - 1
    names = list(plan.tasks)
    barriers, bears = set(plan.barriers), dict(plan.bears)
    free = (name for name in (f"barrier.{number}" for number in count()) if name not in plan.tasks)
    task_of, node_of = [], []
    for vertex in kept:
        task, node = plan.task_of[vertex], plan.node_of[vertex]
        if goes[vertex] and task not in barriers:
            task, node = len(names), virtual
            names.append(next(free))
            barriers.add(task)
            if plan.bears:
                bears[task] = Bears.NONE
        task_of.append(task)
        node_of.append(node)
    number = {old: new for new, old in enumerate(kept)}
    tied = tuple([number[each] for each in parents[vertex]] for vertex in kept)
    used = sorted(set(task_of))
    place = {old: new for new, old in enumerate(used)}
    return TaskPlan(
        nodes=plan.nodes,
        tasks=tuple(names[old] for old in used),
        task_of=tuple(place[old] for old in task_of),
        node_of=tuple(node_of),
        parents=tied,
        rank=heights(tied, sorted_out(tied), dict.fromkeys((v for v, n in enumerate(node_of) if n == virtual), 0)),
        barriers=frozenset(place[old] for old in barriers & set(used)),
        bears={place[old]: each for old, each in bears.items() if old in place},
        parameters={number[old]: value for old, value in plan.parameters.items() if old in number and not goes[old]},
        roles=plan.roles,
    )
