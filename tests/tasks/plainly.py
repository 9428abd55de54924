"""A task list's order as a slow reader understands it: every pair an edge, every rule from docs/tasks.md by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import networkx as nx

from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.tasklist import EVERY, MASTER, SELF, Relation, StrategyType, Task, TaskKind, TaskList


class Plainly:
    """The graph of instances, stages, and the starts and ends of groups."""

    def __init__(self, tasks: TaskList, members: Sequence[Member]) -> None:
        self.tasks = tasks
        self.members = members
        self.groups = [task for task in tasks.tasks if task.kind is TaskKind.GROUP]
        self.on = {task.id: [node for node in members if self.runs(task, node)] for task in tasks.tasks}
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.instances = {
            f"{task.id}@{node.name}"
            for task in tasks.tasks
            if task.kind not in (TaskKind.GROUP, TaskKind.STAGE)
            for node in self.on[task.id]
        }
        self.graph.add_nodes_from(self.instances)
        self.graph.add_edges_from((f"{group.id}.start", f"{group.id}.end") for group in self.groups)
        self.graph.add_edges_from(self.relations())
        if nx.is_directed_acyclic_graph(self.graph):
            self.graph.add_edges_from(list(self.orders()))

    def means(self, name: str, node: Member) -> bool:
        group = next((group for group in self.groups if group.id == name), None)
        if group is not None:
            return any(self.role(role, node) for role in group.roles)
        return self.role(name, node) or any(
            self.means(each.id, node) for each in self.groups if name[0] == "/" and re.fullmatch(name[1:-1], each.id)
        )

    @staticmethod
    def role(name: str, node: Member) -> bool:
        if name in (EVERY, MASTER):
            return node.admin is (name == MASTER)
        if name.startswith("/"):
            return not node.admin and any(re.fullmatch(name[1:-1], role) for role in node.roles)
        return name in node.roles

    def runs(self, task: Task, node: Member) -> bool:
        named = (group for group in self.groups if task.id in group.tasks)
        return any(self.means(name, node) for name in task.roles) or any(self.runs(group, node) for group in named)

    def named(self, name: str, by: Task | None) -> list[Task]:
        if name.startswith("/"):
            return [task for task in self.tasks.tasks if task is not by and re.fullmatch(name[1:-1], task.id)]
        return [task for task in self.tasks.tasks if task.id == name]

    def ends(self, task: Task, leaving: bool, nodes: Sequence[Member]) -> list[str]:
        """The vertices of a task, a stage or a group, where a relation leaves it or comes to it."""
        if task.kind is TaskKind.STAGE:
            return [task.id]
        if task.kind is TaskKind.GROUP:
            return [f"{task.id}.end" if leaving else f"{task.id}.start"]
        return [f"{task.id}@{node.name}" for node in self.on[task.id] if node in nodes]

    def relations(self) -> Iterator[tuple[str, str]]:
        plain = {
            (before.id, after.id): (before, after)
            for task in self.tasks.tasks
            for before, after in (
                *((each, task) for name in task.requires for each in self.named(name, task)),
                *((task, each) for name in task.required_for for each in self.named(name, task)),
            )
        }
        old = not self.groups and all(task.version < (2, 0, 0) for task in self.tasks.tasks)
        for before, after in plain.values():
            apart = {before.kind, after.kind} & {TaskKind.STAGE, TaskKind.GROUP}
            for two in self.ends(after, False, self.members):
                here = [node for node in self.members if two.endswith(f"@{node.name}")]
                ones = self.ends(before, True, self.members if apart else here)
                if old and not apart:
                    ones = ones or self.ends(before, True, self.members)
                yield from ((one, two) for one in ones)
        for task in self.tasks.tasks:
            for relation in task.cross_depends:
                for two, ones in self.far(task, relation, leaving=True):
                    yield from ((one, two) for one in ones)
            for relation in task.cross_depended_by:
                for one, twos in self.far(task, relation, leaving=False):
                    yield from ((one, two) for two in twos)

    def far(self, task: Task, relation: Relation, *, leaving: bool) -> Iterator[tuple[str, list[str]]]:
        for other in self.named(relation.name, None):
            for vertex in self.ends(task, not leaving, self.members):
                own = [node for node in self.members if vertex.endswith(f"@{node.name}")]
                names = relation.roles or ()
                nodes = [n for n in self.members if any(self.means(name, n) for name in names if name != SELF)]
                nodes += own if SELF in names else []
                yield vertex, [each for each in self.ends(other, leaving, nodes) if each != vertex]

    def orders(self) -> Iterator[tuple[str, str]]:
        """What the order of groups adds."""
        below = {name: nx.descendants(self.graph, name) for name in self.graph}
        before = {g.id: [h.id for h in self.groups if f"{g.id}.start" in below[f"{h.id}.end"]] for g in self.groups}
        ranked = sorted(self.groups, key=lambda group: len(before[group.id]))
        chunk_of = {group.id: self.chunks(group) for group in self.groups}
        place: dict[str, tuple[str, int | None]] = {}
        for name in nx.topological_sort(self.graph):
            task_id, _, node = name.partition("@")
            above = [place[each] for each in nx.ancestors(self.graph, name) if each in place]
            for group in ranked if node else ():
                start, end = f"{group.id}.start", f"{group.id}.end"
                if node not in chunk_of[group.id] or not self.belongs(self.tasks.by_id[task_id], group):
                    continue
                if name in below[end] or start in below[name] or any(group.id in before[other] for other, _ in above):
                    continue
                chunk = chunk_of[group.id][node]
                later = any(other == group.id and each is not None and each > chunk for other, each in above)
                place[name] = (group.id, None if later else chunk)
                break
        for group in self.groups:
            own = [(name, chunk) for name, (of, chunk) in place.items() if of == group.id]
            for name, _ in own:
                yield f"{group.id}.start", name
                yield name, f"{group.id}.end"
            for one, first in own:
                for two, second in own:
                    if first is not None and second is not None and first < second:
                        yield one, two

    def chunks(self, group: Task) -> dict[str, int]:
        nodes = [node.name for node in self.members if self.runs(group, node)]
        size = len(nodes) or 1
        if group.strategy is not None:
            amount = group.strategy.amount
            assert amount is None or isinstance(amount, int)
            size = 1 if group.strategy.order is StrategyType.ONE_BY_ONE else amount or size
        return {name: number // size for number, name in enumerate(nodes)}

    def belongs(self, task: Task, group: Task) -> bool:
        own = (group.id, *group.roles)
        ids = [each.id for each in self.groups]
        return any(self.matches(name, task.id) for name in group.tasks) or any(
            name == EVERY
            or any(self.matches(name, each) for each in own)
            or (name not in ids and any(self.matches(each, role) for each in own[1:] for role in self.meant(name)))
            for name in task.roles
        )

    @staticmethod
    def matches(name: str, text: str) -> bool:
        return re.fullmatch(name[1:-1], text) is not None if name[0] == "/" else name == text

    def meant(self, name: str) -> list[str]:
        """The roles that a name or a pattern means."""
        return [name] if name[0] != "/" else [r for node in self.members for r in node.roles if self.matches(name, r)]
