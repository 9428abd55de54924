"""Task lists compiled to plans, beside a plan of networkx that has an edge for each pair of instances.

Each round is a process of its own, so that its CPU and its peak memory are those of one plan. The lists look like Fuel's: five
roles, a fifth of the tasks on each node, three requirements a task, stages and groups in chunks. Every tenth task is after
all instances of another.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from random import Random
from typing import Final

import msgspec
import networkx as nx

from benchmarks.figure import Figure, Plan
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.tasklist import Relation, StrategyType, Task, TaskKind, TaskList, TaskStrategy

ROLES: Final = tuple(f"role-{number}" for number in range(5))
NODES: Final = 1_000
#: Tasks → what 1,000 nodes may cost: seconds of CPU, MB of peak memory.
LIMITS: Final = {1_000: (3.0, 300.0), 5_000: (20.0, None)}
PEER: Final = 400  # tasks, and nodes, of the plan with all edges


class Cost(msgspec.Struct, frozen=True):
    """The cost of one plan."""

    cpu_seconds: float
    peak_mb: float  # of the whole process
    vertices: int

    @property
    def microseconds(self) -> float:
        return self.cpu_seconds / self.vertices * 1e6


def measure(plan: Plan) -> Iterator[Figure]:
    """CPU and memory of plans, and of each vertex beside networkx."""
    for tasks, (seconds, megabytes) in LIMITS.items():
        count, nodes = plan.size(tasks), plan.size(NODES)
        cost = _median(plan.rounds, _ours, count, nodes)
        what = f"{count:,} tasks x {nodes:,} nodes, {cost.vertices:,} vertices"
        yield _figure(f"{what}: CPU", "s", cost.cpu_seconds, seconds)
        if megabytes is not None:
            yield _figure(f"{what}: peak memory", "MB", cost.peak_mb, megabytes)
    size = plan.size(PEER, least=50)
    ours, peer = _median(plan.rounds, _ours, size, size), _median(plan.rounds, _all_edges, size, size)
    yield Figure(
        name="plans",
        what=f"{size:,} tasks x {size:,} nodes, {ours.vertices:,} vertices: CPU",
        unit="us/vertex",
        ours=ours.microseconds,
        other=peer.microseconds,
        beside="us/vertex, networkx, an edge for each pair",
        ratio=peer.microseconds / ours.microseconds,
        bound="at least",
        target=5.0,
        note=f"peak memory {ours.peak_mb:.0f} MB, networkx {peer.peak_mb:.0f} MB",
    )


def _figure(what: str, unit: str, ours: float, target: float) -> Figure:
    return Figure(name="plans", what=what, unit=unit, ours=ours, ratio=ours, bound="at most", target=target)


def _median(rounds: int, make: Callable[[TaskList, list[Member]], int], tasks: int, nodes: int) -> Cost:
    costs = [_apart(make, tasks, nodes) for _ in range(rounds)]
    return Cost(
        statistics.median(cost.cpu_seconds for cost in costs),
        statistics.median(cost.peak_mb for cost in costs),
        costs[0].vertices,
    )


def _apart(make: Callable[[TaskList, list[Member]], int], tasks: int, nodes: int) -> Cost:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(there, make, tasks, nodes))
    process.start()
    there.close()
    try:
        cost: Cost = here.recv()
    finally:
        process.join()
    return cost


def _measured(answer: Connection, make: Callable[[TaskList, list[Member]], int], tasks: int, nodes: int) -> None:
    listed, members = world(tasks, nodes)
    began = time.process_time()
    vertices = make(listed, members)
    took = time.process_time() - began
    answer.send(Cost(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, vertices))


def world(tasks: int, nodes: int) -> tuple[TaskList, list[Member]]:
    """A list and its nodes; the same each time."""
    chance = Random(1)
    listed = [Task(id="start", kind=TaskKind.STAGE), Task(id="end", kind=TaskKind.STAGE, requires=("start",))]
    for number, role in enumerate(ROLES):
        before = (ROLES[number - 1],) if number else ("start",)
        chunks = TaskStrategy(StrategyType.PARALLEL, 100)
        listed.append(
            Task(id=role, kind=TaskKind.GROUP, roles=(role,), requires=before, required_for=("end",), strategy=chunks)
        )
    for number in range(tasks):
        own = [f"task-{each}" for each in range(number % 5, number, 5)][-20:]
        others = [f"task-{each}" for each in range(number - number % 5, number)]
        listed.append(
            Task(
                id=f"task-{number}",
                kind=TaskKind.SHELL,
                version=(2, 0, 0),
                roles=(ROLES[number % 5],),
                requires=("start", *chance.sample(own, min(3, len(own)))),
                required_for=("end",),
                cross_depends=(Relation(chance.choice(others)),) if number % 10 == 9 else (),
            )
        )
    members = [Member(name=f"n{uid}", uid=str(uid), roles=(ROLES[uid % 5],)) for uid in range(1, nodes + 1)]
    return TaskList(tuple(listed)), members


def _ours(tasks: TaskList, members: list[Member]) -> int:
    return len(compile(tasks, members))


def _all_edges(tasks: TaskList, members: list[Member]) -> int:
    """As in Fuel, but without the order of groups and without conditions."""
    on = {task.id: [node.name for node in members if set(task.roles) & set(node.roles)] for task in tasks.tasks}
    graph: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    for task in tasks.of_kind(TaskKind.SHELL):
        graph.add_nodes_from((task.id, node) for node in on[task.id])
        for name in task.requires:
            stage = name == "start"
            graph.add_edges_from(((name, "" if stage else node), (task.id, node)) for node in on[task.id])
        graph.add_edges_from(((task.id, node), ("end", "")) for node in on[task.id])
        for relation in task.cross_depends:
            graph.add_edges_from(
                ((relation.name, far), (task.id, node)) for node in on[task.id] for far in on[relation.name]
            )
    if not nx.is_directed_acyclic_graph(graph):
        raise RuntimeError("the list has a circle")
    return graph.number_of_nodes()
