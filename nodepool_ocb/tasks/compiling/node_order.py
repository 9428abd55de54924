"""The tasks of one node, and their order there. Nodes with the same roles have the same shape, which is made once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush


class NodeOrder:
    """Tasks, by their numbers in the list, at *positions*: a task has a lower position than those that wait for it.

    A set of positions is a mask: bit p is position p. An order that follows from other tasks is left out of ``parents``.
    """

    def __init__(self, tasks: Sequence[int], above: Sequence[Set[int]]) -> None:
        """``above[task]``: the tasks that it waits for on its node, on any shape. Of a circle the rest stands in no order."""
        self.tasks = in_order(tasks, above)
        self.at: Mapping[int, int] = {task: position for position, task in enumerate(self.tasks)}
        self.parents: list[int] = []  # masks
        self.above: list[int] = []  # masks of all that is above
        for position, task in enumerate(self.tasks):
            direct = self.mask(above[task])
            # of a circle, some parents come later: they have no mask yet
            far = _union(self.above[each] for each in bits(direct) if each < position)
            self.parents.append(direct & ~far)
            self.above.append(direct | far)

    def mask(self, tasks: Set[int]) -> int:
        """The positions of those of the tasks that are here."""
        few, at = (tasks, self.at) if len(tasks) < len(self.at) else (self.at, tasks)
        return _union(1 << self.at[task] for task in few if task in at)

    def firsts(self, mask: int) -> tuple[int, ...]:
        """The positions that wait for none of the others."""
        return tuple(position for position in bits(mask) if not self.above[position] & mask)

    def lasts(self, mask: int) -> tuple[int, ...]:
        """The positions that none of the others waits for."""
        return tuple(bits(mask & ~_union(self.above[position] for position in bits(mask))))


def bits(mask: int) -> Iterator[int]:
    """The positions in a mask, ascending.

    >>> list(bits(0b1010))
    [1, 3]
    """
    text = bin(mask)[:1:-1]
    position = text.find("1")
    while position >= 0:
        yield position
        position = text.find("1", position + 1)


def _union(masks: Iterator[int]) -> int:
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def in_order(tasks: Sequence[int], above: Sequence[Set[int]]) -> tuple[int, ...]:
    """Each task after those that it waits for, else as in the list; tasks of a circle at the end."""
    here = set(tasks)
    waits = {task: len(above[task] & here) for task in tasks}
    below: dict[int, list[int]] = {task: [] for task in tasks}
    for task in tasks:
        for each in above[task] & here:
            below[each].append(task)
    ready = [task for task in tasks if not waits[task]]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)
        order.append(task)
        for each in below[task]:
            waits[each] -= 1
            if not waits[each]:
                heappush(ready, each)
    return (*order, *(task for task in tasks if waits[task]))
