"""The door of this folder: a list and nodes become a plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence

from nodepool_ocb.tasks.compiling import groups, related, sequences
from nodepool_ocb.tasks.compiling.circles import refuse
from nodepool_ocb.tasks.compiling.cross_depends import Crossing, RelationsOf
from nodepool_ocb.tasks.compiling.draft import PlanDraft, heights, sorted_out
from nodepool_ocb.tasks.compiling.election import Selectors, elected
from nodepool_ocb.tasks.compiling.groups import Amount
from nodepool_ocb.tasks.compiling.placement import Placement, Relations
from nodepool_ocb.tasks.plan import VIRTUAL, Member, TaskPlan
from nodepool_ocb.tasks.selection import Selection, unselected
from nodepool_ocb.tasks.tasklist import Task, TaskKind, TaskList

#: Why an instance is skipped; None: it is not. Of a stage the member is None.
WhySkipped = Callable[[Task, Member | None], str | None]


def compile(
    tasks: TaskList,
    members: Sequence[Member],
    cluster: Collection[Member] = (),
    *,
    selection: Selection | None = None,
    judge: WhySkipped | None = None,
    done: Collection[tuple[str, str]] = (),
    amount_of: Amount | None = None,
    tolerant: bool = False,
    relations_of: RelationsOf | None = None,
) -> TaskPlan:
    """The plan of a run on ``members``, in listing order.

    ``cluster``: all nodes of the deployment, among which primaries are elected; members belong to it. ``selection``: only the
    selected vertices are judged. ``done``: (task, node) pairs that are skipped because they are done. ``amount_of`` evaluates
    amounts that are expressions. ``relations_of`` evaluates computed relations, which are left out without it. ``tolerant``:
    failures may be tolerated although no group of the list says so.

    Raises Invalid with one shortest circle if tasks wait for one another. Raises Invalid also for an amount below 1, and for each
    name of the selection without a meaning.
    """
    known = {member.name: member for member in (*cluster, *members)}
    roles = elected(tasks, known.values())
    tolerant = tolerant or any(task.fault_tolerance is not None for task in tasks.tasks)
    placement = Placement(Relations(tasks, Selectors(tasks)), members, roles, tolerant=tolerant)
    _relate(placement, tasks, relations_of)
    said = related.noted(placement)
    inside = _order(placement, tasks, amount_of)
    draft = placement.draft
    draft.narrow()
    order = sorted_out(draft.parents)
    refuse(draft.parents, order, lambda vertex: _described(placement, vertex))
    skipped = unselected(selection, related.board(placement, said, inside)) if selection else {}
    skipped = {vertex: why for vertex, why in skipped.items() if draft.task_of[vertex] not in draft.barriers}
    skipped |= _skipped(placement, skipped, judge, frozenset(done))
    return _plan(draft, order, members, skipped, {member.name: roles[member.name] for member in members})


def _relate(placement: Placement, tasks: TaskList, relations_of: RelationsOf | None) -> None:
    """The relations of tasks to tasks on other nodes, and to the stage that they are in."""
    crossing = Crossing(placement)
    crossing.add()
    if relations_of is not None:
        crossing.computed(relations_of)
    grouped = any(task.kind is TaskKind.GROUP for task in tasks.tasks)
    if not grouped and all(task.version < (2, 0, 0) for task in tasks.tasks):
        crossing.elsewhere()
    sequences.between(placement)


def _order(placement: Placement, tasks: TaskList, amount_of: Amount | None) -> Mapping[str, Sequence[int]]:
    """The part that only the run needs: hooks and numbers in lines, groups, chunks and limits; gives the vertices of each group.

    Limits come last: they follow the order that there is.
    """
    if not any(_crosses(task) for task in tasks.tasks):
        sequences.hooks(placement)
    sequences.numbered(placement)
    inside = groups.order(placement, amount_of)
    sequences.limited(placement, amount_of)
    return inside


def _crosses(task: Task) -> bool:
    return bool(task.cross_depends or task.cross_depended_by or task.computed_depends or task.computed_depended_by)


def _described(placement: Placement, vertex: int) -> str:
    """TASK@NODE and its place. Empty for barriers, but not for those of groups: these show why one group waits for another."""
    number = placement.draft.task_of[vertex]
    if number in placement.draft.barriers and not re.search(r"\.(start|end|chunk-[0-9]+)$", placement.name(vertex)):
        return ""
    place = placement.tasks[number].place if number < len(placement.tasks) else ""
    return f"{placement.name(vertex)} ({place})" if place else placement.name(vertex)


def _skipped(
    placement: Placement, beside: Container[int], judge: WhySkipped | None, done: Collection[tuple[str, str]]
) -> dict[int, str]:
    """Vertex → why it is not run, of those that are not put ``beside`` anyway."""
    found: dict[int, str] = {}
    draft, tasks, members = placement.draft, placement.tasks, placement.members
    idle = any(task.kind is TaskKind.SKIPPED for task in tasks)
    if judge is None and not done and not idle:
        return found
    for vertex, (number, node) in enumerate(zip(draft.task_of, draft.node_of, strict=True)):
        if number >= len(tasks) or vertex in beside:
            continue
        task, member = tasks[number], None if node == draft.virtual else members[node]
        if task.kind is TaskKind.SKIPPED:
            found[vertex] = "its type is skipped"
        elif (task.id, member.name if member else VIRTUAL) in done:
            found[vertex] = "it is done"
        elif judge is not None and (why := judge(task, member)) is not None:
            found[vertex] = why
    return found


def _plan(
    draft: PlanDraft,
    order: Sequence[int],
    members: Sequence[Member],
    skipped: Mapping[int, str],
    roles: Mapping[str, tuple[str, ...]],
) -> TaskPlan:
    """The draft without the tasks that run nowhere."""
    used = sorted(set(draft.task_of))
    number = {old: new for new, old in enumerate(used)}
    resting = {vertex: 0 for vertex, node in enumerate(draft.node_of) if node == draft.virtual}
    return TaskPlan(
        nodes=(*(member.name for member in members), VIRTUAL),
        tasks=tuple(draft.names[old] for old in used),
        task_of=tuple(number[old] for old in draft.task_of),
        node_of=tuple(draft.node_of),
        parents=tuple(draft.parents),
        rank=heights(draft.parents, order, resting),
        barriers=frozenset(number[old] for old in draft.barriers),
        bears={number[old]: bears for old, bears in draft.bears.items()} if draft.tolerant else {},
        skipped=skipped,
        roles=roles,
    )
