"""The graph as it is drawn."""

from __future__ import annotations

from nodepool_ocb.model.records import State
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.graphs import noderoles as graph
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, MIDDLE, N1, N2, TOP, put, small


def test_the_graph_has_the_noderoles_that_are_given_and_the_edges_among_them() -> None:
    world = small()
    vertices = [vertex for name in (BASE, MIDDLE) if (vertex := world.vertex(name))]
    assert plain(graph.document(vertices)) == {
        "nodes": [
            {"name": BASE, "state": "ERROR", "deployment": "lab"},
            {"name": MIDDLE, "state": "BLOCKED", "deployment": "lab"},
        ],
        "edges": [[BASE, MIDDLE]],
    }


def test_around_a_noderole_is_all_above_and_below_it_and_nothing_beside_it() -> None:
    world = small()
    put(world, f"other@{N1}", State.TODO, BASE)
    middle = world.vertex(MIDDLE)
    assert middle
    assert {vertex.name for vertex in graph.around(middle)} == {BASE, MIDDLE, TOP}


def test_drawings_have_a_box_for_each_node_and_an_arrow_for_each_edge() -> None:
    world = small()
    put(world, f"far@{N2}", State.ACTIVE, TOP)
    drawn = graph.document(sorted(world.vertices(), key=lambda vertex: vertex.name))
    dot, mermaid = graph.dot(drawn), graph.mermaid(drawn)
    assert f'    "{BASE}" [label="base\\nERROR", fillcolor="#ffc9c9"];' in dot
    assert (dot.count("subgraph"), dot.count("->")) == (2, 3)
    assert f'  "{TOP}" -> "far@{N2}";' in dot
    assert '    n0["base<br/>ERROR"]:::ERROR' in mermaid
    assert (mermaid.count("subgraph"), mermaid.count("-->")) == (2, 3)


def test_a_collapsed_drawing_has_a_box_for_each_role_with_its_counts_and_the_colour_of_the_worst() -> None:
    world = small()
    put(world, f"base@{N2}", State.ACTIVE)
    put(world, f"middle@{N2}", State.ACTIVE, f"base@{N2}")
    text = graphviz.dot(graph.NAME, graph.collapsed(graph.document(list(world.vertices()))))
    assert '    "base" [label="base\\n1 ERROR\\n1 ACTIVE", fillcolor="#ffc9c9"];' in text
    assert '    "middle" [label="middle\\n1 BLOCKED\\n1 ACTIVE", fillcolor="#fff3bf"];' in text
    assert (text.count("subgraph"), text.count('"base" -> "middle"'), text.count("->")) == (0, 1, 2)
