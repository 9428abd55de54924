"""The assignment of nodes to the labels of a request: each label gets a node of its own, as many labels as possible. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def matched(types: Sequence[str], offers: Mapping[str, Sequence[str]]) -> list[str | None]:
    """For each label the id of its node, or None. ``offers``: for each label the ids of its nodes, the best first.

    A node may have several labels, so the first free node of a label may be the only one of another label.

    >>> matched(["a", "b"], {"a": ["both", "one"], "b": ["both"]})
    ['one', 'both']
    """
    found: list[str | None] = [None] * len(types)
    holder: dict[str, int] = {}  # node → place in types
    for place in range(len(types)):
        _place(place, types, offers, holder, found)
    return found


def _place(
    start: int,
    types: Sequence[str],
    offers: Mapping[str, Sequence[str]],
    holder: dict[str, int],
    found: list[str | None],
) -> None:
    """Give the label at ``start`` a node: a free one, or that of a label that can move to another node (an augmenting path)."""
    reached: dict[str, int] = {}  # node → the place that wants it
    places = [start]
    for place in places:
        for node in offers.get(types[place], ()):
            if node in reached:
                continue
            reached[node] = place
            if node not in holder:
                _shift(node, reached, holder, found)
                return
            places.append(holder[node])


def _shift(node: str, reached: Mapping[str, int], holder: dict[str, int], found: list[str | None]) -> None:
    """Move each label along the path that ends at a free node."""
    free: str | None = node
    while free is not None:
        place = reached[free]
        before, found[place], holder[free] = found[place], free, place
        free = before
