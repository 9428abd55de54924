"""One plan of several: each part's nodes wait for no node of another part. For rollouts, which send one part after the other.

A stage or a barrier is there once for each part that has it, and is named ``deploy:canary`` then. A task is sent in the same
phase of the rollout on all nodes. The tasks that it waits for are sent in the same phase, or before it. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.compiling.draft import sorted_out
from nodepool_ocb.tasks.plan import VIRTUAL, Bears, TaskPlan
from nodepool_ocb.tasks.tasklist import Task, TaskKind, TaskList

UNSENT: Final = "no phase of the rollout sends it"  # why a task is skipped


def of_part(task: str, part: str) -> str:
    """The name of a part's own stage or barrier; no task has it, since ids have no colon.

    >>> of_part("deploy", "canary")
    'deploy:canary'
    """
    return f"{task}:{part}"


def united(plans: Mapping[str, TaskPlan]) -> TaskPlan:
    """The plans of all parts as one; no node is in two of them."""
    nodes = (*(node for plan in plans.values() for node in plan.nodes if node != VIRTUAL), VIRTUAL)
    place = {node: at for at, node in enumerate(nodes)}
    numbers: dict[str, int] = {}
    barriers, bears = set[int](), dict[int, Bears]()
    task_of, node_of, rank, parents = list[int](), list[int](), list[int](), list[Sequence[int]]()
    skipped: dict[int, str] = {}
    parameters: dict[int, Mapping[str, Json]] = {}
    for part, plan in plans.items():
        first = len(task_of)
        for task, node in zip(plan.task_of, plan.node_of, strict=True):
            virtual = plan.nodes[node] == VIRTUAL
            name = of_part(plan.tasks[task], part) if virtual else plan.tasks[task]
            task_of.append(numbers.setdefault(name, len(numbers)))
            node_of.append(place[plan.nodes[node]])
            if task in plan.barriers:
                barriers.add(task_of[-1])
                if task in plan.bears:
                    bears[task_of[-1]] = plan.bears[task]
        rank += plan.rank
        parents += [[first + each for each in above] for above in plan.parents]
        skipped |= {first + at: why for at, why in plan.skipped.items()}
        parameters |= {first + at: given for at, given in plan.parameters.items()}
    return TaskPlan(
        nodes=nodes,
        tasks=tuple(numbers),
        task_of=task_of,
        node_of=node_of,
        parents=parents,
        rank=rank,
        barriers=frozenset(barriers),
        bears=bears,
        skipped=skipped,
        parameters=parameters,
        roles={node: roles for plan in plans.values() for node, roles in plan.roles.items()},
    )


def listed(tasks: TaskList, parts: Iterable[str]) -> TaskList:
    """The list with the stages of each part in it."""
    own = (replace(task, id=of_part(task.id, part)) for part in parts for task in tasks.tasks if _placeless(task))
    return TaskList((*tasks.tasks, *own), tasks.compat_prefix)


def _placeless(task: Task) -> bool:
    return task.kind in (TaskKind.STAGE, TaskKind.SKIPPED)


def phases_of(plan: TaskPlan, stages: Sequence[Sequence[str]], parts: Sequence[str]) -> list[list[str]]:
    """For each phase the tasks that it sends first, in the order of the plan; ``stages``: those that each phase names.

    A task that is before a stage on one node is sent with it on all of them, with everything that it waits for anywhere.
    """
    of_task: dict[int, list[int]] = {}
    for vertex, task in enumerate(plan.task_of):
        of_task.setdefault(task, []).append(vertex)
    number = {name: at for at, name in enumerate(plan.tasks)}
    met = set[int]()  # tasks of earlier phases
    found: list[list[str]] = []
    for names in stages:
        wanted = [number[own] for name in names for part in parts if (own := of_part(name, part)) in number]
        new = set(_closure(plan, of_task, wanted)) - met
        met |= new
        found.append([plan.tasks[task] for task in sorted(new) if _on_nodes(plan, of_task[task])])
    return found


def _closure(plan: TaskPlan, of_task: Mapping[int, Sequence[int]], wanted: Iterable[int]) -> Iterator[int]:
    """The tasks, and all that any instance of one of them waits for."""
    queue = list(dict.fromkeys(wanted))
    seen = set(queue)
    while queue:
        task = queue.pop()
        yield task
        above = {plan.task_of[parent] for vertex in of_task[task] for parent in plan.parents[vertex]}
        queue += above - seen
        seen |= above


def _on_nodes(plan: TaskPlan, vertices: Sequence[int]) -> bool:
    return plan.nodes[plan.node_of[vertices[0]]] != VIRTUAL


def without_unsent(plan: TaskPlan, phases: Iterable[Sequence[str]]) -> TaskPlan:
    """The plan, with the tasks that no phase sends skipped."""
    sent = {task for tasks in phases for task in tasks}
    unsent = {
        vertex: UNSENT
        for vertex, (task, node) in enumerate(zip(plan.task_of, plan.node_of, strict=True))
        if plan.nodes[node] != VIRTUAL and plan.tasks[task] not in sent
    }
    return replace(plan, skipped={**unsent, **plan.skipped})


def waiting_across(plan: TaskPlan, phases: Sequence[Sequence[str]], nodes: Collection[str]) -> tuple[int, int] | None:
    """Two vertices on two of these nodes that one phase sends, of which the second waits for the first; None without such."""
    phase_of = {task: at for at, tasks in enumerate(phases) for task in tasks}
    # of a vertex on no node: phase → vertices before it, on two nodes at most
    above: dict[int, dict[int, tuple[int, ...]]] = {}
    for vertex in sorted_out(plan.parents):
        near: dict[int, tuple[int, ...]] = {}
        for parent in plan.parents[vertex]:
            own = phase_of.get(plan.tasks[plan.task_of[parent]])
            more = above.get(parent) or ({} if own is None else {own: (parent,)})
            for phase, vertices in more.items():
                near[phase] = _two(plan, (*near.get(phase, ()), *vertices))
        node = plan.node_of[vertex]
        if plan.nodes[node] == VIRTUAL:
            above[vertex] = near
            continue
        mine = phase_of.get(plan.tasks[plan.task_of[vertex]], -1)
        other = next((each for each in near.get(mine, ()) if plan.node_of[each] != node), None)
        if other is not None and plan.nodes[node] in nodes and vertex not in plan.skipped:
            return other, vertex
    return None


def _two(plan: TaskPlan, vertices: Iterable[int]) -> tuple[int, ...]:
    """One vertex on each node, of two nodes at the most."""
    by_node = {plan.node_of[each]: each for each in vertices}
    return tuple(by_node.values())[:2]
