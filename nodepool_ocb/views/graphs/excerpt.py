"""The part of the graph that a page draws: roles with the states of their noderoles, or the neighbourhood of one noderole.

It is cut to a number of boxes and arrows at which people can still look; ``cut`` says how much is left out. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nodepool_ocb.model.records import State
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.graphs.noderoles import Graph, NoderoleVertex
from nodepool_ocb.views.nodes import WORST
from nodepool_ocb.views.view import View

MOST_BOXES: Final = 120
MOST_ARROWS: Final = 600
MOST_STEPS: Final = 8
LONGEST_WORD: Final = 48  # characters of a line in a box


class ExcerptBox(View, frozen=True, kw_only=True):
    """A role, or a noderole; ``states`` counts its noderoles."""

    name: str
    node: str | None  # of a noderole
    state: State  # the worst
    states: Mapping[State, int]


class GraphExcerpt(View, frozen=True, kw_only=True):
    """``arrows``: the places of two boxes, the parent first."""

    boxes: tuple[ExcerptBox, ...]
    arrows: tuple[tuple[int, int], ...]
    cut: str | None


def roles(graph: Graph) -> GraphExcerpt:
    """A box for each role. Roles with the worst states are kept, if there are too many."""
    counts: dict[str, Counter[State]] = {}
    for vertex in graph.nodes:
        counts.setdefault(vertex.role, Counter())[vertex.state] += 1
    boxes = [_box(role, None, found) for role, found in sorted(counts.items())]
    kept = sorted(boxes, key=lambda box: WORST.index(box.state))[:MOST_BOXES]
    of = {vertex.name: vertex.role for vertex in graph.nodes}
    arrows = ((of[parent], of[child]) for parent, child in graph.edges)
    cut = None if len(kept) == len(boxes) else f"{len(kept)} of {len(boxes)} roles, those with the worst states"
    return _excerpt(kept, arrows, cut)


def near(graph: Graph, name: str, steps: int) -> GraphExcerpt:
    """A noderole with its ancestors and descendants, so many steps away; the nearest and then the worst are kept.

    ``graph`` has all of them, as the operation ``graph`` gives them around a noderole.
    """
    vertices = {vertex.name: vertex for vertex in graph.nodes}
    reached = _reached(graph, vertices, name, steps)
    kept = reached[:MOST_BOXES]
    boxes = [_box(each.name, each.node, Counter({each.state: 1})) for each in kept]
    cut = None
    if len(kept) < len(vertices):
        away = f"at most {steps} {'step' if steps == 1 else 'steps'} away"
        cut = f"{len(kept):,} of {len(vertices):,} noderoles above and below {name}: {away}, the nearest"
    return _excerpt(boxes, graph.edges, cut)


def _reached(graph: Graph, vertices: Mapping[str, NoderoleVertex], name: str, steps: int) -> list[NoderoleVertex]:
    """In the order of steps; within a step the worst first."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for parent, child in graph.edges:
        above.setdefault(child, []).append(parent)
        below.setdefault(parent, []).append(child)
    found, seen = [vertices[name]], {name}
    fronts = [([name], above), ([name], below)]
    for _ in range(steps):
        ring: list[str] = []
        for place, (front, ways) in enumerate(fronts):
            names = dict.fromkeys(other for each in front for other in ways.get(each, ()) if other not in seen)
            seen.update(names)
            fronts[place] = (list(names), ways)
            ring += names
        found += sorted((vertices[each] for each in ring), key=lambda each: (WORST.index(each.state), each.name))
    return found


def _box(name: str, node: str | None, counts: Mapping[State, int]) -> ExcerptBox:
    states = {state: counts[state] for state in WORST if counts.get(state)}
    return ExcerptBox(name=name, node=node, state=next(iter(states)), states=states)


def _excerpt(boxes: Sequence[ExcerptBox], arrows: Iterable[tuple[str, str]], cut: str | None) -> GraphExcerpt:
    places = {box.name: place for place, box in enumerate(boxes)}
    among = dict.fromkeys(
        (places[parent], places[child]) for parent, child in arrows if parent in places and child in places
    )
    kept = sorted(among)[:MOST_ARROWS]
    if len(kept) < len(among):
        less = f"{len(kept):,} of {len(among):,} arrows"
        cut = less if cut is None else f"{cut}; {less}"
    return GraphExcerpt(boxes=tuple(boxes), arrows=tuple(kept), cut=cut)


def dot(excerpt: GraphExcerpt) -> str:
    """For Graphviz. Box 3 has the id ``b3``; the page colours it."""
    lines = [
        "digraph excerpt {",
        '  rankdir="LR"; ranksep="0.45"; nodesep="0.14"; pad="0.1";',
        '  node [shape="box", style="rounded", fontname="Helvetica", fontsize="11", margin="0.14,0.06", height="0.3"];',
        '  edge [arrowsize="0.6"];',
    ]
    for place, box in enumerate(excerpt.boxes):
        words = map(_short, _words(box))
        lines.append(f'  b{place} [id="b{place}", label={graphviz.quoted(*words)}];')
    lines += [f"  b{parent} -> b{child};" for parent, child in excerpt.arrows]
    return "\n".join([*lines, "}"])


def _words(box: ExcerptBox) -> tuple[str, ...]:
    if box.node is not None:
        return box.name.partition("@")[0], box.node, str(box.state)
    return box.name, *(f"{count:,} {state}" for state, count in box.states.items())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_WORD else f"{text[: LONGEST_WORD - 1]}…"
