"""A run is made from a compiled plan: without skipped vertices, with the facts of each node first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json, Role
from nodepool_ocb.tasks.compiling.contraction import contracted
from nodepool_ocb.tasks.compiling.election import Selectors, selector
from nodepool_ocb.tasks.plan import VIRTUAL, TaskPlan
from nodepool_ocb.tasks.runs import roles
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, Tolerance
from nodepool_ocb.tasks.runs.states import TaskRunEvent, new_task_run
from nodepool_ocb.tasks.tasklist import Task, TaskKind, TaskList

FACTS: Final = "facts"  # the task that each node does first: it writes the file of facts


def facts_task(path: str) -> Task:
    """The task that writes the attribute ``astute`` to a file that root alone may read."""
    given: Mapping[str, Json] = {"path": path, "data_from": "astute", "permissions": "0600"}
    return Task(id=FACTS, kind=TaskKind.UPLOAD_FILE, parameters=given, origin="every run")


def run(
    deployment: str,
    tasks: TaskList,
    plan: TaskPlan,
    *,
    virtual: str,
    facts: Task | None = None,
    tolerances: Sequence[Tolerance] = (),
    **head: Json,
) -> tuple[LoadedTaskRun, dict[str, Role]]:
    """The run of a plan, and the roles that the catalogue must have for it, by name.

    ``facts``: the task that each node runs first; ``head``: fields of the record of the run. Raises Invalid if nothing would run.
    """
    skipped = [(plan.tasks[plan.task_of[at]], plan.nodes[plan.node_of[at]], why) for at, why in plan.skipped.items()]
    left = contracted(plan)
    if not any(left.nodes[node] for node in left.node_of):
        raise Invalid(
            "nothing is left to run: every task is skipped, or has no node; see: nodepool-ocb tasks plan -o json"
        )
    by_id = dict(tasks.by_id)
    if facts is not None:
        left = with_first(left, facts.id)
        by_id[facts.id] = facts
    defined = roles.definitions(left, by_id, deployment)
    record = new_task_run(
        TaskRunEvent.BEGIN,
        virtual=virtual,
        vertices=sum(task not in left.barriers for task in left.task_of),
        skipped=len(skipped),
        nodes=len({node for node in left.node_of if left.nodes[node]}),
        tolerances=tuple(tolerances),
        **head,
    )
    wanted = {each.role: roles.role(deployment, name, by_id.get(name)) for name, each in defined.items()}
    return LoadedTaskRun(deployment, "", record, left, skipped, defined), wanted


def with_first(plan: TaskPlan, task: str) -> TaskPlan:
    """The plan with one task more, which each node that has any does before all others."""
    number, count = len(plan.tasks), len(plan)
    used = sorted({node for node in plan.node_of if plan.nodes[node] != VIRTUAL})
    first = {node: count + at for at, node in enumerate(used)}
    parents: list[Sequence[int]] = []
    for at, above in enumerate(plan.parents):
        own = first.get(plan.node_of[at])
        alone = own is not None and all(plan.node_of[each] != plan.node_of[at] for each in above)
        parents.append((*above, own) if alone and own is not None else above)
    highest = max(plan.rank, default=0) + 1
    return replace(
        plan,
        tasks=(*plan.tasks, task),
        task_of=[*plan.task_of, *(number for _ in used)],
        node_of=[*plan.node_of, *used],
        parents=[*parents, *(() for _ in used)],
        rank=[*plan.rank, *(highest for _ in used)],
    )


def tolerances(tasks: TaskList, plan: TaskPlan) -> Iterator[Tolerance]:
    """Of each group that says how many of its nodes may fail, and has any."""
    selectors = Selectors(tasks)
    for group in tasks.of_kind(TaskKind.GROUP):
        if group.fault_tolerance is None:
            continue
        named = selector(group)
        nodes = tuple(
            node for node in plan.nodes if node and selectors.mean(named, frozenset(plan.roles.get(node, ())), False)
        )
        if nodes:
            yield Tolerance(group.id, most(group.fault_tolerance, len(nodes)), nodes)


def most(tolerance: str, nodes: int) -> int:
    """How many nodes may fail: a number, a percentage (rounded down), or below 0 how many must not.

    >>> most("2", 10), most("25%", 10), most("-8", 10), most("-20", 10), most("0", 10)
    (2, 2, 2, 0, 0)
    """
    text = tolerance.strip()
    if text.endswith("%"):
        return nodes * int(text[:-1]) // 100
    number = int(text)
    return number if number >= 0 and not text.startswith("-") else max(0, nodes + number)
