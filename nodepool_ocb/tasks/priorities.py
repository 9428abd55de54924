"""The tasks of a node in a run, with priorities that give their order, as in the section "Data model impact" of Fuel's design.

If the plan orders two tasks of a node, the later one has the higher priority. Tasks of one priority are not ordered. The order
is that of the whole plan, through stages and other nodes, too. Pure, in time linear in the plan.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.tasklist import ORDER_ONLY, Task, TaskList

STEP: Final = 100  # from one priority to the next
PARAMETER_BYTES: Final = 4096  # as JSON; larger ones, such as the text of a file, are left out

_encode = msgspec.json.Encoder().encode


def agendas(
    plan: TaskPlan, tasks: TaskList, uids: Mapping[str, str], parameters_of: Callable[[Task], Mapping[str, Json]]
) -> dict[str, list[Json]]:
    """Node → its tasks that run, by priority and id. ``parameters_of``: a task's parameters, the same on every node."""
    depth = depths(plan.parents)
    own: dict[str, list[tuple[int, str, int]]] = {node: [] for node in plan.nodes if node}
    for vertex, (number, node) in enumerate(zip(plan.task_of, plan.node_of, strict=True)):
        task = tasks.by_id.get(plan.tasks[number])
        runs = task is not None and task.kind not in ORDER_ONLY and number not in plan.barriers
        if runs and vertex not in plan.skipped and plan.nodes[node]:
            own[plan.nodes[node]].append((depth[vertex], plan.tasks[number], vertex))
    shared = {
        task: _small(parameters_of(tasks.by_id[task])) for task in {each[1] for row in own.values() for each in row}
    }
    return {node: _agenda(sorted(row), plan, tasks, uids[node], shared) for node, row in own.items()}


def _agenda(
    row: Sequence[tuple[int, str, int]],
    plan: TaskPlan,
    tasks: TaskList,
    uid: str,
    shared: Mapping[str, Mapping[str, Json]],
) -> list[Json]:
    priority = {depth: STEP * place for place, depth in enumerate(dict.fromkeys(each[0] for each in row), 1)}
    return [
        {
            "id": task,
            "priority": priority[depth],
            "type": str(tasks.by_id[task].kind),
            "uids": [uid],
            "parameters": {**shared[task], **_small(plan.parameters.get(vertex, {}))},
        }
        for depth, task, vertex in row
    ]


def depths(parents: Sequence[Sequence[int]]) -> Sequence[int]:
    """Of each vertex how many are above it, one after the other.

    >>> list(depths([[], [0], [0], [1, 2], []]))
    [0, 1, 1, 2, 0]
    """
    children: list[list[int]] = [[] for _ in parents]
    waits = array("l", map(len, parents))
    for vertex, above in enumerate(parents):
        for parent in above:
            children[parent].append(vertex)
    depth = array("l", bytes(8 * len(parents)))
    ready = [vertex for vertex, count in enumerate(waits) if not count]
    for vertex in ready:  # it grows meanwhile
        for child in children[vertex]:
            depth[child] = max(depth[child], depth[vertex] + 1)
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
    return depth


def _small(parameters: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in parameters.items() if len(_encode(value)) <= PARAMETER_BYTES}
