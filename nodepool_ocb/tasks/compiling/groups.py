"""The order of groups: all of one before all of another, and the chunks of a group one after the other.

A vertex is of one group: the first in order of the groups on its node that it belongs to. A named relation wins over the
order of groups (decision 062). Vertices before the start of a group, or after its end, are not in it. The same holds for a
vertex that a relation puts after a later group or a later chunk. That group or chunk does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.compiling.draft import sorted_out
from nodepool_ocb.tasks.compiling.election import selector
from nodepool_ocb.tasks.compiling.placement import Anchor, NodeProfile, Placement
from nodepool_ocb.tasks.plan import Bears
from nodepool_ocb.tasks.tasklist import Expression, StrategyType, Task, TaskKind

Amount = Callable[[Task, Expression], int]
Members = dict[int, dict[int, list[int]]]  # chunk → node → tasks


def amount(task: Task, amount_of: Amount | None) -> int | None:
    """How many at once, by the strategy of a task or a group; None: all. Raises Invalid if that is not above 0."""
    if task.strategy is None:
        return None
    if task.strategy.order is StrategyType.ONE_BY_ONE:
        return 1
    value = task.strategy.amount
    if isinstance(value, Expression):
        if amount_of is None:
            raise Invalid(
                f"{task.place}: {task.id}: the amount is an expression, which is not evaluated here; give a number"
            )
        value = amount_of(task, value)
    if value is not None and value < 1:
        raise Invalid(f"{task.place}: {task.id}: the amount is {value}; give 1 or more, or leave it out")
    return value


class TaskGroup(msgspec.Struct, frozen=True, dict=True):
    """One group in the order of groups. Each of its chunks has a bit of its own, as each group has among groups."""

    task: Task
    anchor: Anchor
    bit: int
    chunk_of: Mapping[int, int]  # node → its chunk
    chunk_bits: Sequence[int]

    @cached_property
    def bits(self) -> int:
        return sum(self.chunk_bits)


def order(placement: Placement, amount_of: Amount | None) -> Mapping[str, Sequence[int]]:
    """Add the order of all groups; gives the vertices that are of each. Vertices already in a circle are left as they are."""
    if not any(placement.tasks[number].kind is TaskKind.GROUP for number in placement.anchors):
        return {}
    groups = _Groups(placement, amount_of)
    for group, own in zip(groups.groups, groups.members(), strict=True):
        _chain(placement, group, own)
    return {group.task.id: own for group, own in zip(groups.groups, groups.inside, strict=True)}


class _Groups:
    """The groups of a list, first those that others wait for."""

    def __init__(self, placement: Placement, amount_of: Amount | None) -> None:
        self._placement = placement
        self._parents = placement.draft.parents
        self._sorted = sorted_out(self._parents)
        found = [(n, a) for n, a in placement.anchors.items() if placement.tasks[n].kind is TaskKind.GROUP]
        self._ended = self._below({anchor.leave: 1 << bit for bit, (_, anchor) in enumerate(found)})
        self._starting = self._above({anchor.enter: 1 << bit for bit, (_, anchor) in enumerate(found)})
        self.groups: list[TaskGroup] = []
        self.inside: list[list[int]] = []  # the vertices of each group; filled by ``members``
        free = 0
        for bit, (number, anchor) in enumerate(found):
            task = placement.tasks[number]
            chunk_of = self._chunks(task, amount(task, amount_of))
            count = max(chunk_of.values(), default=-1) + 1
            self.groups.append(
                TaskGroup(task, anchor, 1 << bit, chunk_of, [1 << (free + chunk) for chunk in range(count)])
            )
            free += count
        # a group comes after more ends of groups than any that it waits for; the sort keeps the others as in the list
        self.groups.sort(key=lambda group: self._ended[group.anchor.enter].bit_count())

    def _below(self, marks: Mapping[int, int]) -> list[int]:
        """For each vertex the marks of those that it is below, or is."""
        found = [0] * len(self._parents)
        for vertex in self._sorted:
            mark = marks.get(vertex, 0)
            for each in self._parents[vertex]:
                mark |= found[each]
            found[vertex] = mark
        return found

    def _above(self, marks: Mapping[int, int]) -> list[int]:
        """For each vertex the marks of those that it is above, or is."""
        found = [0] * len(self._parents)
        for vertex in reversed(self._sorted):
            mark = found[vertex] = found[vertex] | marks.get(vertex, 0)
            if mark:
                for each in self._parents[vertex]:
                    found[each] |= mark
        return found

    def _chunks(self, task: Task, size: int | None) -> dict[int, int]:
        looks = [look for look in self._placement.nodes if look.meant(selector(task))]
        nodes = sorted(node for look in looks for node in self._placement.nodes[look])
        return {node: place // size if size else 0 for place, node in enumerate(nodes)}

    def members(self) -> list[Members]:
        """The vertices of each group."""
        after = [sum(h.bits for h in self.groups if self._ended[h.anchor.enter] & g.bit) for g in self.groups]
        belonging = self._belonging()
        own: list[Members] = [{} for _ in self.groups]
        self.inside = [[] for _ in self.groups]
        marks = [0] * len(self._parents)  # the chunks that a vertex is below, or is of
        draft = self._placement.draft
        for vertex in self._sorted:
            mark = 0
            for each in self._parents[vertex]:
                mark |= marks[each]
            node, task = draft.node_of[vertex], draft.task_of[vertex]
            if node != draft.virtual:
                passed = self._ended[vertex] | self._starting[vertex]
                for each in belonging[node].get(task, ()):
                    group = self.groups[each]
                    if not passed & group.bit and not mark & after[each]:
                        chunk = group.chunk_of[node]
                        bit = group.chunk_bits[chunk]
                        if mark & group.bits >= bit << 1:  # of a later chunk
                            chunk = -1
                        mark |= bit
                        own[each].setdefault(chunk, {}).setdefault(node, []).append(task)
                        self.inside[each].append(vertex)
                        break
            marks[vertex] = mark
        return own

    def _belonging(self) -> list[Mapping[int, Sequence[int]]]:
        """For each node: task → the groups that it belongs to there, by their places."""
        found = {look: self._belonging_of(look) for look in self._placement.nodes}
        return [found[look] for look in self._placement.looks]

    def _belonging_of(self, look: NodeProfile) -> dict[int, Sequence[int]]:
        selectors, tasks = self._placement.relations.selectors, self._placement.tasks
        here = [(place, group.task) for place, group in enumerate(self.groups) if look.meant(selector(group.task))]
        roles = self._placement.roles
        return {
            number: [place for place, group in here if selectors.belong(tasks[number], group, roles)]
            for number in self._placement.shapes[look].tasks
        }


def _chain(placement: Placement, group: TaskGroup, own: Members) -> None:
    """Start, chunk after chunk, end. Vertices in no chunk (-1) are between start and end."""
    draft = placement.draft
    gate = group.anchor.enter
    for chunk in sorted(own):
        firsts: list[int] = []
        lasts: list[int] = []
        for node, tasks in own[chunk].items():
            first, last = placement.ends(node, frozenset(tasks))
            firsts += first
            lasts += last
        draft.after([gate], firsts)
        if chunk in (-1, max(own)) or draft.tolerant:  # one node of any chunk that succeeded is enough
            draft.after(lasts, [group.anchor.leave])
        if chunk not in (-1, max(own)):
            gate = draft.barrier(f"{group.task.id}.chunk-{chunk + 1}", lasts, Bears.ALL)
