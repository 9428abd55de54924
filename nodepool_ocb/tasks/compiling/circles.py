"""The circle that a refused plan is refused for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Final

from nodepool_ocb.errors import Invalid

LOOKS: Final = 2_000_000  # edges that are looked at: then the shortest circle so far is named


def refuse(parents: Sequence[Sequence[int]], order: Sequence[int], describe: Callable[[int], str]) -> None:
    """Raises Invalid with one shortest circle, if ``order`` lacks vertices because they wait for one another.

    A vertex with an empty description is left out of the message.
    """
    if len(order) == len(parents):
        return
    circle = _shortest(parents, _knotted(parents, order))
    names = [name for name in map(describe, circle[:-1]) if name]
    ways = " -> ".join([*names, names[0]])
    raise Invalid(f"tasks wait for one another: {ways}; take one of these relations away")


def _knotted(parents: Sequence[Sequence[int]], order: Sequence[int]) -> set[int]:
    """The vertices without an order, without those that only wait for a circle."""
    left = set(range(len(parents))).difference(order)
    children = dict.fromkeys(left, 0)
    for vertex in left:
        for each in parents[vertex]:
            if each in left:
                children[each] += 1
    free = [vertex for vertex, count in children.items() if not count]
    while free:
        vertex = free.pop()
        left.discard(vertex)
        for each in parents[vertex]:
            if each in left:
                children[each] -= 1
                if not children[each]:
                    free.append(each)
    return left


def _shortest(parents: Sequence[Sequence[int]], knotted: Set[int]) -> list[int]:
    """A shortest circle, in the order of the work; its first vertex is also its last."""
    best: list[int] = []
    looks = 0
    for start in sorted(knotted):
        came = {start: start}
        queue = deque([(start, 1)])
        while queue:
            vertex, length = queue.popleft()
            if best and length >= len(best) - 1:
                break
            looks += len(parents[vertex])
            if start in parents[vertex]:
                best = [start, *_way(came, vertex)]
                break
            for each in parents[vertex]:
                if each in knotted and each not in came:
                    came[each] = vertex
                    queue.append((each, length + 1))
        if best and (len(best) <= 3 or looks > LOOKS):
            break
    return best


def _way(came: dict[int, int], vertex: int) -> list[int]:
    """The way from the vertex down to the start of the search."""
    way = [vertex]
    while came[vertex] != vertex:
        vertex = came[vertex]
        way.append(vertex)
    return way
