"""A plan while it is made: vertices, their parents, and the names of barriers."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from nodepool_ocb.tasks.plan import Bears

#: Parents of one vertex at most; more become a tree of barriers. The engine writes a noderole with all of them at once.
MOST_PARENTS: Final = 200
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,40}")


class PlanDraft:
    """Grows only. ``parents`` may hold a vertex twice, and circles, until the plan is finished."""

    def __init__(self, names: Sequence[str], virtual: int, *, tolerant: bool = False) -> None:
        """``names``: of tasks; ``virtual``: the number of the virtual node.

        ``tolerant``: failures may be tolerated, so each relation to several instances has a barrier of its own.
        """
        self.names = list(names)
        self.virtual = virtual
        self.task_of = array("l")
        self.node_of = array("l")
        self.parents: list[list[int]] = []
        self.barriers: set[int] = set()  # positions in names
        self.bears: dict[int, Bears] = {}  # of barriers, by position; SOME is left out
        self.tolerant = tolerant
        self._taken = set(names)

    def place(self, tasks: Iterable[int], node: int, parents: Iterable[list[int]]) -> None:
        """One vertex for each of the tasks, in this order."""
        before = len(self.task_of)
        self.task_of.extend(tasks)
        self.node_of.extend([node] * (len(self.task_of) - before))
        self.parents.extend(parents)

    def barrier(self, name: str, parents: Iterable[int] = (), bears: Bears = Bears.SOME) -> int:
        """A new vertex that only orders; it is called so if that can be a name and is free."""
        if name in self._taken or not _NAME.fullmatch(name):
            number = len(self.barriers)
            while (name := f"barrier.{number}") in self._taken:
                number += 1
        self._taken.add(name)
        self.barriers.add(len(self.names))
        if bears is not Bears.SOME:
            self.bears[len(self.names)] = bears
        self.names.append(name)
        self.place([len(self.names) - 1], self.virtual, [list(parents)])
        return len(self.parents) - 1

    def after(self, before: Iterable[int], vertices: Iterable[int]) -> None:
        """Each of ``vertices`` waits for all of ``before``: an edge for each pair."""
        edges = list(before)
        if edges:
            for vertex in vertices:
                self.parents[vertex] += edges

    def order(self, before: Sequence[int], after: Sequence[int], name: str, bears: Bears = Bears.SOME) -> None:
        """All of ``before``, then all of ``after``; through a barrier if that takes fewer edges, or if it may bear failures."""
        bearing = self.tolerant and (len(before) > 1 or (bears is Bears.ALL and len(before) > 0))
        if bearing or len(before) * len(after) > len(before) + len(after):
            before = [self.barrier(name, before, bears)]
        self.after(before, after)

    def relate(self, before: Iterable[int], after: Sequence[int]) -> None:
        """As ``after``; where failures may be tolerated, the instances of each task have a barrier of their own."""
        if not self.tolerant:
            self.after(before, after)
            return
        by_task: dict[int, list[int]] = {}
        for vertex in before:
            by_task.setdefault(self.task_of[vertex], []).append(vertex)
        for task, vertices in by_task.items() if after else ():
            self.order(vertices, after, f"{self.names[task]}.all")

    def narrow(self) -> None:
        """Each vertex has no parent twice, and MOST_PARENTS at most."""
        for vertex in range(len(self.parents)):
            above = self.parents[vertex]
            if len(above) > 1 and len(set(above)) != len(above):
                above = self.parents[vertex] = list(dict.fromkeys(above))
            if len(above) > MOST_PARENTS:
                task = self.task_of[vertex]
                bears = self.bears.get(task, Bears.SOME if task in self.barriers or not self.tolerant else Bears.NONE)
                while len(above) > MOST_PARENTS:
                    parts = [above[start : start + MOST_PARENTS] for start in range(0, len(above), MOST_PARENTS)]
                    above = [self.barrier("", part, bears) for part in parts]
                self.parents[vertex] = above


def sorted_out(parents: Sequence[Sequence[int]]) -> list[int]:
    """Vertices, each after its parents; vertices in a circle, or after one, are left out."""
    order: list[int] = []
    state = bytearray(len(parents))  # 0: not seen; 1: on the way that is being followed up; 2: in order
    for vertex in range(len(parents)):
        way = [] if state[vertex] else [vertex]
        while way:
            top = way[-1]
            missing = [each for each in parents[top] if state[each] != 2] if state[top] != 2 else None
            if missing:
                if any(state[each] == 1 for each in missing) or top in missing:
                    return _without_circles(parents)
                state[top] = 1
                way += missing
            else:
                if missing is not None:
                    state[top] = 2
                    order.append(top)
                way.pop()
    return order


def _without_circles(parents: Sequence[Sequence[int]]) -> list[int]:
    waits = array("l", map(len, parents))
    offsets, children = _turned(parents)
    order = [vertex for vertex, count in enumerate(waits) if not count]
    for vertex in order:  # it grows meanwhile
        for child in children[offsets[vertex] : offsets[vertex + 1]]:
            waits[child] -= 1
            if not waits[child]:
                order.append(child)
    return order


def _turned(parents: Sequence[Sequence[int]]) -> tuple[array[int], array[int]]:
    """The children of v are ``children[offsets[v]:offsets[v + 1]]``, ascending; gives (offsets, children)."""
    count = array("l", bytes(8 * (len(parents) + 2)))
    for vertex in chain.from_iterable(parents):
        count[vertex + 2] += 1
    for vertex in range(2, len(count)):
        count[vertex] += count[vertex - 1]
    children = array("l", bytes(8 * count[-1]))
    for vertex, above in enumerate(parents):
        for each in above:
            children[count[each + 1]] = vertex
            count[each + 1] += 1
    return count[:-1], children


def heights(parents: Sequence[Sequence[int]], order: Sequence[int], weights: Mapping[int, int]) -> array[int]:
    """The number of vertices on the longest way below each; a vertex weighs 1 unless ``weights`` has it."""
    below = array("l", bytes(8 * len(parents)))
    for vertex in reversed(order):
        height = below[vertex] + weights.get(vertex, 1)
        for each in parents[vertex]:
            if below[each] < height:
                below[each] = height
    return below


def depths(parents: Sequence[Sequence[int]], order: Sequence[int]) -> array[int]:
    """How many vertices are on the longest way above each."""
    above = array("l", bytes(8 * len(parents)))
    for vertex in order:
        above[vertex] = max((above[each] + 1 for each in parents[vertex]), default=0)
    return above
