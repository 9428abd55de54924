"""The part of a graph that the page draws: roles, and the neighbourhood of one noderole, cut to a size."""

from __future__ import annotations

from nodepool_ocb.model.records import State
from nodepool_ocb.views.graphs import excerpt, noderoles
from nodepool_ocb.views.graphs.excerpt import GraphExcerpt
from nodepool_ocb.views.graphs.noderoles import Graph, NoderoleVertex
from tests.views.small import BASE, MIDDLE, N1, TOP, chain, small

WIDE = excerpt.MOST_BOXES + 30


def arrows(part: GraphExcerpt) -> list[tuple[str, str]]:
    return [(part.boxes[parent].name, part.boxes[child].name) for parent, child in part.arrows]


def star(below: int) -> Graph:
    """One noderole with so many children, the last one in ERROR."""
    names = [f"leaf-{number:04}@n" for number in range(below)]
    vertices = [NoderoleVertex(name="root@n", state=State.ACTIVE, deployment="d")]
    for name in names:
        state = State.ERROR if name == names[-1] else State.ACTIVE
        vertices.append(NoderoleVertex(name=name, state=state, deployment="d"))
    return Graph(nodes=tuple(vertices), edges=tuple(("root@n", name) for name in names))


def test_a_role_is_a_box_with_the_states_of_its_noderoles() -> None:
    part = excerpt.roles(noderoles.document(list(small().vertices())))
    assert [(box.name, box.state, dict(box.states)) for box in part.boxes] == [
        ("base", State.ERROR, {State.ERROR: 1}),
        ("middle", State.BLOCKED, {State.BLOCKED: 1}),
        ("top", State.BLOCKED, {State.BLOCKED: 1}),
    ]
    assert arrows(part) == [("base", "middle"), ("middle", "top")]
    assert part.cut is None


def test_the_neighbourhood_ends_after_its_steps_and_says_how_much_is_left_out() -> None:
    graph = noderoles.document(list(chain(9, State.ACTIVE).vertices()))
    part = excerpt.near(graph, "r4@n", 2)
    assert {box.name for box in part.boxes} == {f"r{level}@n" for level in range(2, 7)}
    assert part.boxes[0].name == "r4@n"
    assert part.cut == "5 of 9 noderoles above and below r4@n: at most 2 steps away, the nearest"
    assert excerpt.near(graph, "r4@n", 8).cut is None


def test_only_ancestors_and_descendants_are_neighbours() -> None:
    graph = star(3)
    part = excerpt.near(graph, "leaf-0000@n", 2)
    assert [box.name for box in part.boxes] == ["leaf-0000@n", "root@n"]


def test_of_many_neighbours_the_worst_are_kept() -> None:
    part = excerpt.near(star(WIDE), "root@n", 1)
    assert len(part.boxes) == excerpt.MOST_BOXES
    assert part.boxes[1].name == f"leaf-{WIDE - 1:04}@n"
    assert part.cut is not None
    assert part.cut.startswith(f"{excerpt.MOST_BOXES} of {WIDE + 1} noderoles above and below root@n")


def test_of_many_roles_those_with_the_worst_states_are_kept() -> None:
    part = excerpt.roles(star(WIDE))
    assert f"leaf-{WIDE - 1:04}" in {box.name for box in part.boxes}
    assert part.cut is not None
    assert part.cut.startswith(f"{excerpt.MOST_BOXES} of {WIDE + 1} roles, those with the worst states")


def test_more_arrows_than_can_be_drawn_are_counted() -> None:
    names = [f"r{number}@n" for number in range(40)]
    vertices = tuple(NoderoleVertex(name=name, state=State.ACTIVE, deployment="d") for name in names)
    edges = tuple((one, other) for one in names for other in names if one < other)
    part = excerpt.roles(Graph(nodes=vertices, edges=edges))
    assert len(part.arrows) == excerpt.MOST_ARROWS
    assert part.cut == f"{excerpt.MOST_ARROWS} of {len(edges)} arrows"


def test_a_name_is_escaped_and_cut_for_graphviz() -> None:
    long = f'a"<b>\\N{"x" * 200}'
    vertex = NoderoleVertex(name=f"{long}@n", state=State.ACTIVE, deployment="d")
    text = excerpt.dot(excerpt.roles(Graph(nodes=(vertex,), edges=())))
    assert 'label="a\\"&lt;b&gt;\\\\Nxxx' in text
    assert "…" in text
    assert max(map(len, text.splitlines())) < 200


def test_a_box_of_a_noderole_names_its_node() -> None:
    graph = noderoles.document(list(small().vertices()))
    part = excerpt.near(graph, MIDDLE, 1)
    assert {box.name for box in part.boxes} == {BASE, MIDDLE, TOP}
    assert f'label="middle\\n{N1}\\nBLOCKED"' in excerpt.dot(part)
