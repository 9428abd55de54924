"""The tasks of each node, and the meaning of the names in relations there.

A task runs on each node that its selector selects, or on the nodes of a group that names it. A ``master_shell`` runs on each
admin node instead, once. It stands in the order of every node that its selector selects (decision 061). A stage is one vertex
on the virtual node. A group is two, its start and its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

import msgspec

from nodepool_ocb.tasks.compiling.draft import PlanDraft
from nodepool_ocb.tasks.compiling.election import Selectors, selector
from nodepool_ocb.tasks.compiling.node_order import NodeOrder, bits
from nodepool_ocb.tasks.patterns import is_pattern
from nodepool_ocb.tasks.plan import Bears, Member
from nodepool_ocb.tasks.tasklist import SELF, Relation, Task, TaskKind, TaskList

ANCHORS = frozenset({TaskKind.STAGE, TaskKind.GROUP})


class NodeProfile(msgspec.Struct, frozen=True):
    """The view of a node in a list: roles that the list does not name make no difference."""

    names: frozenset[str]  # all names of roles and groups in the list that select it
    admin: bool

    def meant(self, names: Iterable[str]) -> bool:
        """Whether any of these names, which are in the list, means it."""
        return not self.names.isdisjoint(names)


class Anchor(msgspec.Struct, frozen=True):
    """A stage or a group: vertices before it are before ``enter``, vertices after it are after ``leave``."""

    enter: int
    leave: int


class Relations:
    """The relations among the tasks of a list, by their numbers in the list."""

    def __init__(self, tasks: TaskList, selectors: Selectors) -> None:
        self.tasks = tasks.tasks
        self.selectors = selectors
        self.number = {task.id: number for number, task in enumerate(self.tasks)}
        self._matching: dict[str, list[int]] = {}
        self.above: list[set[int]] = [set() for _ in self.tasks]  # by requires and required_for
        for number, task in enumerate(self.tasks):
            self.above[number].update(self.named(task.requires, number))
            for each in self.named(task.required_for, number):
                self.above[each].add(number)

    def named(self, names: Iterable[str], but: int) -> Iterator[int]:
        """The tasks that names and /patterns/ mean; a pattern does not mean the task that says it."""
        for name in names:
            if is_pattern(name):
                if name not in self._matching:
                    match = self.selectors.match
                    self._matching[name] = [n for n, task in enumerate(self.tasks) if match(name, task.id)]
                yield from (number for number in self._matching[name] if number != but)
            elif name in self.number:
                yield self.number[name]

    @cached_property
    def added(self) -> Set[str]:
        """The tasks that groups name."""
        return frozenset(name for task in self.tasks if task.kind is TaskKind.GROUP for name in task.tasks)

    @cached_property
    def crossing(self) -> Sequence[tuple[int, int, Relation, bool]]:
        """(before, after, relation, whether it is the later one that says it), other than to ``self``."""
        found = []
        for number, task in enumerate(self.tasks):
            for relation in task.cross_depends:
                found += [(each, number, relation, True) for each in self.named((relation.name,), -1)]
            for relation in task.cross_depended_by:
                found += [(number, each, relation, False) for each in self.named((relation.name,), -1)]
        return [
            (before, after, relation, later_says)
            for before, after, relation, later_says in found
            if relation.roles != (SELF,) or {self.tasks[before].kind, self.tasks[after].kind} & ANCHORS
        ]

    @cached_property
    def local(self) -> Sequence[Set[int]]:
        """For each task, the tasks that it waits for on its own node; without stages and groups."""
        above = [set() if task.kind in ANCHORS else set(self.above[n]) for n, task in enumerate(self.tasks)]
        for number, task in enumerate(self.tasks):
            for relation in task.cross_depends:
                if SELF in (relation.roles or ()):
                    above[number].update(set(self.named((relation.name,), number)) - {number})
            for relation in task.cross_depended_by:
                if SELF in (relation.roles or ()):
                    for each in self.named((relation.name,), number):
                        above[each].update({number} - {each})
        anchors = {number for number, task in enumerate(self.tasks) if task.kind in ANCHORS}
        return [set() if number in anchors else each - anchors for number, each in enumerate(above)]


class Placement:
    """Vertices in a draft, with their order on each node, and with that of stages and groups."""

    def __init__(
        self,
        relations: Relations,
        members: Sequence[Member],
        roles: Mapping[str, tuple[str, ...]],
        *,
        tolerant: bool = False,
    ) -> None:
        self.relations = relations
        self.tasks = relations.tasks
        self.members = members
        self.roles = frozenset(role for each in members for role in roles[each.name])
        meaning = relations.selectors.meaning
        self.looks = [NodeProfile(meaning(frozenset(roles[each.name]), each.admin), each.admin) for each in members]
        self.nodes: dict[NodeProfile, list[int]] = {}  # in listing order
        for node, look in enumerate(self.looks):
            self.nodes.setdefault(look, []).append(node)
        self.shapes = self._shapes()
        self.draft = PlanDraft([task.id for task in self.tasks], len(members), tolerant=tolerant)
        self._slots = {look: self._numbered(look, shape) for look, shape in self.shapes.items()}
        self._ends: dict[tuple[NodeProfile, frozenset[int]], tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._base = [0] * len(members)
        for look in self.nodes:
            self._place(look)
        self._stand_in()
        self.anchors = dict(self._anchors())
        self._tie()

    def _shapes(self) -> dict[NodeProfile, NodeOrder]:
        here = {look: self._selected(look) for look in self.nodes}
        hosted = {n for each in here.values() for n in each if self.tasks[n].kind is TaskKind.MASTER_SHELL}
        admins = any(look.admin for look in here)
        for look, tasks in here.items():
            if look.admin:
                tasks |= hosted
            elif not admins:
                tasks -= hosted
        return {look: NodeOrder(sorted(tasks), self.relations.local) for look, tasks in here.items()}

    def _selected(self, look: NodeProfile) -> set[int]:
        """The tasks that the selectors select, and those of the groups."""
        meant = [n for n, task in enumerate(self.tasks) if look.meant(self._selector(task))]
        groups = (self.tasks[n] for n in meant if self.tasks[n].kind is TaskKind.GROUP)
        named = {n for group in groups for n in self.relations.named(group.tasks, -1)}
        return {n for n in named.union(meant) if self.tasks[n].kind not in ANCHORS}

    def _selector(self, task: Task) -> tuple[str, ...]:
        """The selector of a task; a task without roles that a group names runs on the nodes of the group alone."""
        return task.roles if task.id in self.relations.added else selector(task)

    def _numbered(self, look: NodeProfile, shape: NodeOrder) -> list[int]:
        """Position → the place of its vertex among those of a node; -1 if the vertex is on the admin node."""
        slots, count = [], 0
        for task in shape.tasks:
            away = not look.admin and self.tasks[task].kind is TaskKind.MASTER_SHELL
            slots.append(-1 if away else count)
            count += not away
        return slots

    def _place(self, look: NodeProfile) -> None:
        shape, slots = self.shapes[look], self._slots[look]
        tasks = [task for task, slot in zip(shape.tasks, slots, strict=True) if slot >= 0]
        rows = [
            [slots[each] for each in bits(above) if slots[each] >= 0]
            for above, slot in zip(shape.parents, slots, strict=True)
            if slot >= 0
        ]
        for node in self.nodes[look]:
            base = self._base[node] = len(self.draft.parents)
            self.draft.place(tasks, node, ([base + each for each in row] for row in rows))

    def _stand_in(self) -> None:
        """The order between tasks of the admin node and the tasks of other nodes that stand around them."""
        for look, shape in self.shapes.items():
            slots = self._slots[look]
            for position, slot in enumerate(slots if -1 in slots else ()):
                others = [each for each in bits(shape.parents[position]) if (slots[each] < 0) != (slot < 0)]
                self.draft.after(self.vertices(look, others), self.vertices(look, [position]) if others else ())

    def vertices(self, look: NodeProfile, positions: Iterable[int]) -> list[int]:
        """The vertices at these positions, on all nodes of this look; in listing order."""
        slots, shape = self._slots[look], self.shapes[look]
        positions = list(positions)
        own = [slots[each] for each in positions if slots[each] >= 0]
        found = [self._base[node] + slot for node in self.nodes[look] for slot in own]
        return found + [v for each in positions if slots[each] < 0 for v in self._hosts(shape.tasks[each])]

    def _hosts(self, task: int) -> list[int]:
        admins = [look for look in self.nodes if look.admin]
        return [v for look in admins for v in self.vertices(look, [self.shapes[look].at[task]])]

    def ends(self, node: int, tasks: frozenset[int]) -> tuple[list[int], list[int]]:
        """Of these tasks on a node the vertices that wait for none of the others, and those that none waits for."""
        look = self.looks[node]
        if (look, tasks) not in self._ends:
            shape = self.shapes[look]
            mask = shape.mask(tasks)
            self._ends[look, tasks] = (shape.firsts(mask), shape.lasts(mask))
        slots, base = self._slots[look], self._base[node]
        first, last = self._ends[look, tasks]
        return [base + slots[each] for each in first], [base + slots[each] for each in last]

    def instances(self, task: int, names: Sequence[str] = ()) -> list[int]:
        """The vertices of a task, each once, those that run in listing order; on the nodes that the names mean, or on all."""
        found: list[int] = []
        for look, shape in self.shapes.items():
            if task in shape.at and (not names or look.meant(names)):
                found += self.vertices(look, [shape.at[task]])
        return sorted(dict.fromkeys(found), key=self.draft.node_of.__getitem__)

    def name(self, vertex: int) -> str:
        """TASK@NODE; for a vertex on the virtual node its own name."""
        task, node = self.draft.names[self.draft.task_of[vertex]], self.draft.node_of[vertex]
        return task if node == self.draft.virtual else f"{task}@{self.members[node].name}"

    def _anchors(self) -> Iterator[tuple[int, Anchor]]:
        """Stages and groups, with all that waits for them and that they wait for."""
        for number, task in enumerate(self.tasks):
            if task.kind is TaskKind.STAGE:
                self.draft.place([number], self.draft.virtual, [[]])
                vertex = len(self.draft.parents) - 1
                yield number, Anchor(vertex, vertex)
            elif task.kind is TaskKind.GROUP:
                start = self.draft.barrier(f"{task.id}.start", (), Bears.NONE)
                yield number, Anchor(start, self.draft.barrier(f"{task.id}.end", [start]))

    def _tie(self) -> None:
        """The order between stages or groups and the vertices before and after them."""
        above = self.relations.above
        below: dict[int, set[int]] = {number: set() for number in self.anchors}
        for number, each in enumerate(above):
            for early in each & self.anchors.keys():
                below[early].add(number)
        for own, anchor in self.anchors.items():
            earlier = sorted(above[own] & self.anchors.keys())
            self.draft.after([self.anchors[each].leave for each in earlier], [anchor.enter])
            before: list[int] = []
            for look, shape in self.shapes.items():
                before += self.vertices(look, shape.lasts(shape.mask(above[own])))
            self.draft.relate(before, [anchor.enter])
            for look, shape in self.shapes.items():
                firsts = shape.firsts(shape.mask(below[own]))
                self.draft.after([anchor.leave], self.vertices(look, firsts))
