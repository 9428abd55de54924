"""The relations that ``--start`` and ``--end`` follow: those of tasks, stages and groups, without the order of the run.

A run also has lines of hooks, groups one after the other, chunks and limits. These determine when a task runs. A task does not
need the tasks that run before it by these (decision 106).

A group counts if a relation names it. A task or stage that requires a group is after all vertices of the group. A vertex of a
group is after the tasks and stages that the group requires, and not after other groups. Only from a group that is itself named
does the way lead on to the vertices of the groups that require it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodepool_ocb.tasks.compiling.draft import sorted_out
from nodepool_ocb.tasks.compiling.placement import Placement
from nodepool_ocb.tasks.selection import Board, Span
from nodepool_ocb.tasks.tasklist import TaskKind


def noted(placement: Placement) -> list[list[int]]:
    """The parents of each vertex as they are now."""
    return [list(above) for above in placement.draft.parents]


def board(placement: Placement, said: Sequence[Sequence[int]], inside: Mapping[str, Sequence[int]]) -> Board:
    """``said``: relations ``noted`` before the order of the run was added. ``inside``: the vertices that are of each group."""
    draft, tasks = placement.draft, placement.tasks
    vertices: dict[int, list[int]] = {number: [] for number in range(len(tasks))}
    for vertex, number in enumerate(draft.task_of):
        if number < len(tasks):
            vertices[number].append(vertex)
    anchors = {tasks[n].id: each for n, each in placement.anchors.items() if tasks[n].kind is TaskKind.GROUP}
    parents = [*map(list, said), *([] for _ in range(len(draft.parents) - len(said)))]
    groups = {
        name: Span(len(parents) + at, each.enter, each.leave, inside.get(name, ()))
        for at, (name, each) in enumerate(anchors.items())
    }
    _through(groups, parents)
    return Board(
        parents=parents,
        order=sorted_out(parents),
        node_of=draft.node_of,
        tasks={task.id: vertices[number] for number, task in enumerate(tasks) if task.kind is not TaskKind.GROUP},
        groups=groups,
        nodes=[(member.name, member.uid) for member in placement.members],
    )


def _through(groups: Mapping[str, Span], parents: list[list[int]]) -> None:
    """Order the members of a group after the vertices that the group is after, and before those that are after the group.

    Each group gets two more vertices: ``start``, and one that keeps n x m relations at n + m edges.
    """
    start_of = {span.leave: span.start for span in groups.values()}
    above = [parents[span.enter] for span in groups.values()]
    parents += [[start_of[each] for each in own if each in start_of] for own in above]
    for span, own in zip(groups.values(), above, strict=True):
        parents.append([span.start, *(each for each in own if each not in start_of)])
        for vertex in span.inside:
            parents[vertex].append(len(parents) - 1)
        parents[span.leave].extend(span.inside)
