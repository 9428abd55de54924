"""Relations between nodes: ``cross-depends``, ``cross-depended-by``, and the relations that old lists mean by ``requires``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

from nodepool_ocb.tasks.compiling.placement import Placement
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.tasklist import SELF, Expression, Policy, Relation, Task

#: The value of a computed relation of a task on a node.
RelationsOf = Callable[[Task, Expression, Member], Sequence[Relation]]
FEW: Final = 4  # instances that one vertex waits for without a barrier
POINTS: Final = 16  # of each instance on the ring that ``any`` chooses from


class Crossing:
    """Adds relations to a draft. One barrier stands for the instances of a task, for any number of waiting vertices."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._draft = placement.draft
        self._tasks = placement.tasks
        self._barriers: dict[tuple[int, object], int] = {}

    def add(self) -> None:
        """Every relation between nodes, as far as both its tasks have instances."""
        for before, after, relation, later_says in self._placement.relations.crossing:
            ups = self._ends(before, relation if later_says else None, leaving=True)
            downs = self._ends(after, None if later_says else relation, leaving=False)
            if not ups or not downs:
                continue
            if relation.policy is Policy.ANY and before != after:
                self._any(ups, downs) if later_says else self._any_below(ups, downs)
            elif before == after and len(ups) == 1:
                self._draft.after(ups, [each for each in downs if each != ups[0]])
            else:
                self.all(ups, downs, (before, relation.roles if later_says else None))

    def computed(self, relations_of: RelationsOf) -> None:
        """Relations that an expression of the task is worth, on each of its nodes for itself."""
        for number, task in enumerate(self._tasks):
            for said, later_says in ((task.computed_depends, True), (task.computed_depended_by, False)):
                for vertex in self._placement.instances(number) if said else ():
                    member = self._placement.members[self._draft.node_of[vertex]]
                    for relation in (each for one in said for each in relations_of(task, one, member)):
                        self._relate(vertex, relation, later_says=later_says)

    def _relate(self, vertex: int, relation: Relation, *, later_says: bool) -> None:
        """One instance and the other one that its relation names; ``later_says``: the instance is the later one."""
        for other in self._placement.relations.named((relation.name,), -1):
            found = self._ends(other, relation, leaving=later_says)
            if SELF in (relation.roles or ()) and other not in self._placement.anchors:
                node = self._draft.node_of[vertex]
                own = [each for each in self._placement.instances(other) if self._draft.node_of[each] == node]
                found = list(dict.fromkeys([*found, *own]))
            found = [each for each in found if each != vertex]
            if found and relation.policy is Policy.ANY:
                found = [self._pick(self._ring(found), vertex)]
            if found and later_says:
                self.all(
                    found,
                    [vertex],
                    (other, (relation.roles, self._draft.node_of[vertex] if SELF in (relation.roles or ()) else None)),
                )
            elif found:
                self._draft.after([vertex], found)

    def _ends(self, task: int, relation: Relation | None, *, leaving: bool) -> list[int]:
        """The vertices at one end of a relation: of a stage or a group its own, else those on the nodes that it names."""
        if task in self._placement.anchors:
            anchor = self._placement.anchors[task]
            return [anchor.leave if leaving else anchor.enter]
        if relation is None:
            return self._placement.instances(task)
        names = tuple(name for name in relation.roles or () if name != SELF)
        return self._placement.instances(task, names) if names else []

    def all(self, before: Sequence[int], after: Sequence[int], key: tuple[int, object]) -> None:
        """All of ``before``, then all of ``after``; ``key``: the earlier task, and its nodes."""
        several = len(before) > 1 and (len(after) > 1 or self._draft.tolerant)
        if len(before) > FEW or several:  # others may wait for the same
            if key not in self._barriers:
                self._barriers[key] = self._draft.barrier(f"{self._tasks[key[0]].id}.all", before)
            before = [self._barriers[key]]
        self._draft.after(before, after)

    def _any(self, before: Sequence[int], after: Sequence[int]) -> None:
        ring = self._ring(before)
        for vertex in after:
            self._draft.after([self._pick(ring, vertex)], [vertex])

    def _any_below(self, before: Sequence[int], after: Sequence[int]) -> None:
        ring = self._ring(after)
        for vertex in before:
            self._draft.after([vertex], [self._pick(ring, vertex)])

    def _ring(self, vertices: Sequence[int]) -> list[tuple[int, int]]:
        return sorted((self._spot(vertex, point), vertex) for vertex in vertices for point in range(POINTS))

    def _pick(self, ring: list[tuple[int, int]], vertex: int) -> int:
        """The next instance on the ring: when a node goes, only the vertices that had chosen it choose again."""
        return ring[bisect_left(ring, (self._spot(vertex, 0), -1)) % len(ring)][1]

    def _spot(self, vertex: int, point: int) -> int:
        name = f"{self._placement.name(vertex)} {point}"
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")

    def elsewhere(self) -> None:
        """Of a list that knows neither groups nor relations between nodes: ``requires``, where its node has no such task.

        Then all instances on other nodes are meant (seed 002, "Alternatives").
        """
        relations = self._placement.relations
        anchors = self._placement.anchors.keys()
        for number, above in enumerate(relations.above):
            for each in sorted(above - anchors):
                before = self._placement.instances(each)
                for look, shape in self._placement.shapes.items():
                    if before and number in shape.at and each not in shape.at:
                        self.all(before, self._placement.vertices(look, [shape.at[number]]), (each, None))
