"""The plan of a run of tasks: each task with its nodes, the order, and the reason why other instances do not run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.tasks.compiling.election import selector
from nodepool_ocb.tasks.plan import VIRTUAL, TaskPlan
from nodepool_ocb.tasks.tasklist import MASTER, ORDER_ONLY, TaskKind, TaskList
from nodepool_ocb.views.view import View

BARRIER: Final = "barrier"  # the type of a vertex that replaces many edges in a plan
_QUIET: Final = frozenset({BARRIER, *map(str, ORDER_ONLY)})  # types that run nothing
SHOWN: Final = 8  # names in a cell; -o json has all


class PlannedTask(View, frozen=True, kw_only=True):
    """A task, on nodes that may start with it at the same time."""

    wave: int  # 1 and up: the longest line of tasks that ends with it
    task: str
    type: str
    nodes: tuple[str, ...]  # in listing order; empty for an instance without a node


class LeftOutTask(View, frozen=True, kw_only=True):
    """An instance of a task that is not run, or a task that has none (``node`` is null)."""

    task: str
    node: str | None
    reason: str


class LeftOutReason(View, frozen=True, kw_only=True):
    """Why instances are not run."""

    reason: str
    instances: int  # 0 of tasks that have no node
    tasks: tuple[str, ...]


class TaskPlanDocument(View, frozen=True, kw_only=True):
    """A plan for people and programs."""

    deployment: str
    nodes: tuple[str, ...]  # in listing order
    roles: Mapping[str, tuple[str, ...]]  # node → its roles in this run
    runs: tuple[PlannedTask, ...]
    reasons: tuple[LeftOutReason, ...]
    left_out: tuple[LeftOutTask, ...]

    @property
    def names(self) -> list[str]:
        """The instances that run, as TASK@NODE."""
        return [f"{row.task}@{node}" if node else row.task for row in self.runs for node in row.nodes or ("",)]

    @property
    def summary(self) -> str:
        """The numbers of instances and nodes that run, as a sentence. Instances that run nothing, and nodes without
        others, do not count.
        """
        runs = [row for row in self.runs if row.type not in _QUIET]
        nodes = {node for row in runs for node in row.nodes}
        many = sum(len(row.nodes) for row in runs)
        placeless = len({task for reason in self.reasons if not reason.instances for task in reason.tasks})
        said = f"{counted(many, 'instance')} of tasks to run on {counted(len(nodes), 'node')}, "
        return f"{said}{sum(reason.instances for reason in self.reasons)} not" + (
            f"; {counted(placeless, 'task')} without a node" if placeless else ""
        )


class PlannedWords(View, frozen=True, kw_only=True):
    """A planned task for a table."""

    wave: int
    task: str
    type: str
    nodes: str | None


class ReasonWords(View, frozen=True, kw_only=True):
    """A reason for a table."""

    not_run: str  # tasks
    instances: int
    reason: str


def topological(parents: Sequence[Iterable[int]]) -> list[int]:
    """Vertices, each after its parents. Vertices in a circle, and below one, are left out.

    >>> topological([[1], [], [0, 1], [3]])
    [1, 0, 2]
    """
    waiting = [0] * len(parents)
    children: list[list[int]] = [[] for _ in parents]
    for vertex, above in enumerate(parents):
        for parent in above:
            waiting[vertex] += 1
            children[parent].append(vertex)
    order = [vertex for vertex, count in enumerate(waiting) if not count]
    for vertex in order:  # grows
        for child in children[vertex]:
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return order


def waves(plan: TaskPlan, kinds: Mapping[str, str]) -> list[int]:
    """For each vertex: the number of tasks in the longest path that ends with it. Vertices that run nothing count zero."""
    found = [0] * len(plan)
    counts = {number for number, task in enumerate(plan.tasks) if kinds[task] not in _QUIET}
    for vertex in topological(plan.parents):
        runs = vertex not in plan.skipped and plan.task_of[vertex] in counts
        found[vertex] = max((found[parent] for parent in plan.parents[vertex]), default=0) + runs
    return found


def kinds(plan: TaskPlan, tasks: TaskList) -> dict[str, str]:
    """The type of each task of a plan. A task that is not in the list is a barrier."""
    known = tasks.by_id
    return {task: str(known[task].kind) if task in known else BARRIER for task in plan.tasks}


def document(deployment: str, plan: TaskPlan, tasks: TaskList, *, everything: bool = False) -> TaskPlanDocument:
    """The plan by waves. With ``everything`` it has the tasks that run nothing too: groups, stages, barriers, tasks of
    type skipped.
    """
    types = kinds(plan, tasks)
    reported = [vertex for vertex in range(len(plan)) if everything or types[_task(plan, vertex)] not in _QUIET]
    left = tuple(_left(plan, vertex) for vertex in reported if vertex in plan.skipped)
    homeless = tuple(_homeless(plan, tasks))
    return TaskPlanDocument(
        deployment=deployment,
        nodes=tuple(node for node in plan.nodes if node != VIRTUAL),
        roles=plan.roles,
        runs=tuple(_runs(plan, types, [vertex for vertex in reported if vertex not in plan.skipped])),
        reasons=(*_reasons(left), *(replace(each, instances=0) for each in _reasons(homeless))),
        left_out=(*left, *homeless),
    )


def _homeless(plan: TaskPlan, tasks: TaskList) -> Iterator[LeftOutTask]:
    """The tasks that have no instance, in the order of the list."""
    there = {plan.tasks[number] for number in plan.task_of}
    there |= {name.partition(":")[0] for name in there}  # a part of a rollout has stages of its own
    known = {role for roles in plan.roles.values() for role in roles}
    groups = {task.id: selector(task) for task in tasks.of_kind(TaskKind.GROUP)}
    for task in tasks.tasks:
        if task.kind not in ORDER_ONLY and task.id not in there:
            names = dict.fromkeys(role for name in selector(task) for role in groups.get(name, (name,)))
            yield LeftOutTask(task=task.id, node=None, reason=f"runs on no node: {_lacking(tuple(names), known)}")


def _lacking(names: Sequence[str], known: Collection[str]) -> str:
    if names == (MASTER,):
        return "no admin node takes part"
    said = f"role {names[0]}" if len(names) == 1 else f"of the roles {some(names, 3)}"
    near = did_you_mean(names[0], known) if len(names) == 1 else ""
    return f"no node has {'the ' if len(names) == 1 else 'one '}{said}{near}"


def _task(plan: TaskPlan, vertex: int) -> str:
    return plan.tasks[plan.task_of[vertex]]


def _runs(plan: TaskPlan, types: Mapping[str, str], vertices: Iterable[int]) -> Iterator[PlannedTask]:
    """By wave, then in the order of the list."""
    wave = waves(plan, types)
    places: dict[tuple[int, int], list[int]] = {}
    for vertex in vertices:
        places.setdefault((wave[vertex], plan.task_of[vertex]), []).append(plan.node_of[vertex])
    for (number, task), nodes in sorted(places.items()):
        names = tuple(plan.nodes[node] for node in sorted(nodes) if plan.nodes[node] != VIRTUAL)
        yield PlannedTask(wave=number, task=plan.tasks[task], type=types[plan.tasks[task]], nodes=names)


def _left(plan: TaskPlan, vertex: int) -> LeftOutTask:
    node = plan.nodes[plan.node_of[vertex]]
    return LeftOutTask(task=_task(plan, vertex), node=node or None, reason=plan.skipped[vertex])


def _reasons(left: Iterable[LeftOutTask]) -> list[LeftOutReason]:
    """The most frequent first."""
    by_reason: dict[str, list[str]] = {}
    for each in left:
        by_reason.setdefault(each.reason, []).append(each.task)
    found = [
        LeftOutReason(reason=reason, instances=len(tasks), tasks=tuple(dict.fromkeys(tasks)))
        for reason, tasks in by_reason.items()
    ]
    return sorted(found, key=lambda each: (-each.instances, each.reason))


def words(row: PlannedTask) -> PlannedWords:
    """A row for a table."""
    return PlannedWords(wave=row.wave, task=row.task, type=row.type, nodes=some(row.nodes, SHOWN) or None)


def reason_words(row: LeftOutReason) -> ReasonWords:
    """A row for a table."""
    return ReasonWords(not_run=some(row.tasks, 3), instances=row.instances, reason=row.reason)
