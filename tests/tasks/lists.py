"""Task lists, nodes and plans for tests, and relations between instances as a slow reader understands them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx

from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.tasklist import Relation, StrategyType, Task, TaskKind, TaskList, TaskStrategy

ONE_BY_ONE = TaskStrategy(StrategyType.ONE_BY_ONE)
AT_ONCE = TaskStrategy(StrategyType.PARALLEL)


def by(amount: int) -> TaskStrategy:
    return TaskStrategy(StrategyType.PARALLEL, amount)


def task(name: str, kind: str = "shell", **fields: Any) -> Task:
    """A task; lists and words become tuples."""
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    for key in ("roles", "requires", "required_for", "tasks"):
        if isinstance(fields.get(key), str):
            fields[key] = tuple(fields[key].split())
    return Task(id=name, kind=TaskKind(kind), **{"place": f"tasks.yaml:{name}", **fields})


def stage(name: str, **fields: Any) -> Task:
    return task(name, "stage", **fields)


def group(name: str, **fields: Any) -> Task:
    return task(name, "group", **{"roles": name, **fields})


def crossing(name: str, *roles: str, **fields: Any) -> Relation:
    return Relation(name, roles or ("*",), **fields)


def listing(*tasks: Task) -> TaskList:
    return TaskList(tasks)


def nodes(**roles: str) -> list[Member]:
    """``n4="controller"``: the node n4, whose uid is 4; ``admin`` is the admin node."""
    return [
        Member(name=name, uid=name.removeprefix("n"), roles=tuple(each.split()), admin=name.startswith("admin"))
        for name, each in roles.items()
    ]


def graph(plan: TaskPlan) -> nx.DiGraph[str]:
    """A plan as a graph of names."""
    found: nx.DiGraph[str] = nx.DiGraph()
    found.add_nodes_from(plan.name(vertex) for vertex in range(len(plan)))
    found.add_edges_from((plan.name(before), plan.name(after)) for before, after in plan.edges())
    return found


def works(plan: TaskPlan) -> list[str]:
    """The names of what runs: no stages, no barriers."""
    return [plan.name(vertex) for vertex in range(len(plan)) if plan.nodes[plan.node_of[vertex]]]


def waves(plan: TaskPlan) -> list[set[str]]:
    """What runs, in waves: each as early as it may."""
    found: list[set[str]] = []
    depth: dict[str, int] = {}
    whole, running = graph(plan), set(works(plan))
    for name in nx.topological_sort(whole):
        depth[name] = max((depth[each] + (each in running) for each in whole.predecessors(name)), default=0)
        if name in running:
            found += [set() for _ in range(depth[name] + 1 - len(found))]
            found[depth[name]].add(name)
    return found


def order(plan: TaskPlan, among: Iterable[str] | None = None) -> set[tuple[str, str]]:
    """Every pair (before, after) of what runs, whatever is between."""
    kept = set(works(plan) if among is None else among)
    return closure(graph(plan), kept)


def closure(whole: nx.DiGraph[str], kept: set[str]) -> set[tuple[str, str]]:
    below: dict[str, set[str]] = {}
    for name in reversed(list(nx.topological_sort(whole))):
        below[name] = {name}.union(*(below[each] for each in whole.successors(name)))
    return {(name, each) for name in kept & set(whole) for each in below[name] & kept if each != name}


def on(plan: TaskPlan, before: str, after: str) -> bool:
    """Whether one is before the other."""
    return nx.has_path(graph(plan), before, after)


def names(waves: Sequence[Iterable[str]]) -> list[str]:
    """Waves as text: one line each."""
    return [" ".join(sorted(each)) for each in waves]
