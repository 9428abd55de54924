"""Which noderole waits for which: as JSON, for Graphviz, and for Mermaid; drawn from parents to children."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import State
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.graphs.graphviz import Box, GraphPicture
from nodepool_ocb.views.nodes import WORST
from nodepool_ocb.views.view import View

NAME: Final = "noderoles"

FILL: Final = {
    State.PROPOSED: "#e8d5f0",
    State.BLOCKED: "#fff3bf",
    State.TODO: "#d0ebff",
    State.TRANSITION: "#a5d8ff",
    State.ACTIVE: "#c3f0ca",
    State.ERROR: "#ffc9c9",
}


class NoderoleVertex(View, frozen=True, kw_only=True):
    """A noderole of the graph."""

    name: str
    state: State
    deployment: str

    @property
    def role(self) -> str:
        """The part before the @."""
        return self.name.partition("@")[0]

    @property
    def node(self) -> str:
        """The FQDN of its node."""
        return self.name.partition("@")[2]


class Graph(View, frozen=True, kw_only=True):
    """The noderoles, and the edges between them: (parent, child)."""

    nodes: tuple[NoderoleVertex, ...]
    edges: tuple[tuple[str, str], ...]


def document(vertices: Sequence[Vertex]) -> Graph:
    """These noderoles with the edges among them."""
    corners = (NoderoleVertex(name=v.name, state=v.record.state, deployment=v.record.deployment) for v in vertices)
    return Graph(nodes=tuple(corners), edges=tuple(_edges(vertices)))


def around(vertex: Vertex) -> set[Vertex]:
    """All above and all below a noderole, and itself."""
    found = {vertex}
    for above in (True, False):
        queue = [vertex]
        while queue:
            each = queue.pop()
            fresh = [other for other in (each.parents if above else each.children) if other not in found]
            found.update(fresh)
            queue += fresh
    return found


def picture(graph: Graph) -> GraphPicture:
    """The picture for Graphviz."""
    return GraphPicture([_box(vertex) for vertex in graph.nodes], graph.edges)


def collapsed(graph: Graph) -> GraphPicture:
    """For Graphviz: a box for each role, with how many of its noderoles are in which state."""
    return graphviz.collapsed(picture(graph), WORST)


def dot(graph: Graph) -> str:
    """For Graphviz: one cluster a node."""
    return graphviz.dot(NAME, picture(graph))


def mermaid(graph: Graph) -> str:
    """For Mermaid's flowcharts, as Markdown viewers draw them."""
    numbers = {vertex.name: f"n{number}" for number, vertex in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for fqdn, bound in _by_node(graph.nodes):
        lines.append(f"  subgraph {json.dumps(fqdn)}")
        for vertex in bound:
            lines.append(f'    {numbers[vertex.name]}["{vertex.role}<br/>{vertex.state}"]:::{vertex.state}')
        lines.append("  end")
    lines += [f"  {numbers[parent]} --> {numbers[child]}" for parent, child in graph.edges]
    lines += [f"  classDef {state} fill:{colour}" for state, colour in FILL.items()]
    return "\n".join(lines)


def _box(vertex: NoderoleVertex) -> Box:
    return Box(vertex.name, vertex.role, (vertex.state,), vertex.state, FILL[vertex.state], vertex.node)


def _by_node(vertices: Iterable[NoderoleVertex]) -> Iterable[tuple[str, list[NoderoleVertex]]]:
    found: dict[str, list[NoderoleVertex]] = {}
    for vertex in vertices:
        found.setdefault(vertex.node, []).append(vertex)
    return found.items()


def _edges(vertices: Sequence[Vertex]) -> Iterator[tuple[str, str]]:
    shown = set(vertices)
    for child in vertices:
        yield from ((parent.name, child.name) for parent in child.parents if parent in shown)
