"""Circles in graphs of names: for each knot of them one shortest, never all: there may be more than one can count."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import msgspec


class Component(msgspec.Struct, frozen=True):
    """Names that all lead to one another, and a shortest way round among them."""

    names: frozenset[str]
    circle: tuple[str, ...]  # begins and ends with the same name

    def __str__(self) -> str:
        return " -> ".join(self.circle)


def components(graph: Mapping[str, Iterable[str]]) -> list[Component]:
    """Every knot of a graph (name -> the names that it leads to), by name; names that are no key lead nowhere.

    >>> [str(component) for component in components({"a": ["b"], "b": ["c", "a"], "c": ["a"], "d": ["d", "a"]})]
    ['a -> b -> a', 'd -> d']
    """
    edges = {name: sorted({each for each in following if each in graph}) for name, following in graph.items()}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return _knots(edges)
    return []


def _knots(edges: Mapping[str, list[str]]) -> list[Component]:
    import networkx as nx  # here: it takes long to import, and few graphs have a circle

    whole: nx.DiGraph[str] = nx.DiGraph(edges)
    found = []
    for names in nx.strongly_connected_components(whole):
        if len(names) > 1 or any(name in edges[name] for name in names):
            inside = {name: [each for each in edges[name] if each in names] for name in sorted(names)}
            found.append(Component(frozenset(names), _shortest(inside)))
    return sorted(found, key=lambda knot: knot.circle)


def _shortest(edges: Mapping[str, list[str]]) -> tuple[str, ...]:
    """A shortest circle, begun with its first name; of several the first by name that is found.

    Each has a name that leads to two others, or there is only the one.
    """
    best: tuple[str, ...] = ()
    for start in [name for name in edges if len(edges[name]) > 1] or list(edges)[:1]:
        circle = _turned(_round(edges, start, len(best) if best else len(edges) + 1))
        if circle and (not best or (len(circle), circle) < (len(best), best)):
            best = circle
    return best


def _turned(circle: tuple[str, ...]) -> tuple[str, ...]:
    """The same, begun with its first name.

    >>> _turned(("b", "c", "a", "b"))
    ('a', 'b', 'c', 'a')
    """
    at = circle.index(min(circle)) if circle else 0
    return (*circle[at:-1], *circle[:at], circle[at]) if circle else ()


def _round(edges: Mapping[str, list[str]], start: str, below: int) -> tuple[str, ...]:
    """A shortest way from ``start`` back to it with fewer than ``below`` edges + 1 names; empty where none is."""
    came: dict[str, tuple[str, int]] = {start: ("", 0)}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        length = came[name][1] + 1
        if length >= below:
            return ()
        for each in edges[name]:
            if each == start:
                return _way(came, name, start)
            if each not in came:
                came[each] = (name, length)
                queue.append(each)
    return ()


def _way(came: Mapping[str, tuple[str, int]], last: str, start: str) -> tuple[str, ...]:
    way = [start]
    while last != start:
        way.append(last)
        last = came[last][0]
    return (start, *reversed(way)) if len(way) > 1 else (start, start)
