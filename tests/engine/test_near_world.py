"""A world of a part of the tree refuses each question that it cannot answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.engine.world import Extent, NearWorld, Stored
from nodepool_ocb.errors import Unread
from nodepool_ocb.model.boot import Publication
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Deployment, Node, NodeRole, State


def part() -> NearWorld:
    """n1 whole, with two noderoles, the lower with a parent on n2, of which nothing else was read."""
    world = NearWorld()
    world.put(Stored(Deployment(), 0), "lab")
    for fqdn in ("n1", "n2"):
        world.put_node(fqdn, Node(), 0)
    world.put_noderole("n2", "base", NodeRole(state=State.ACTIVE, since=1.0, deployment="lab"))
    served = NodeRole.of(state=State.ACTIVE, since=1.0, deployment="lab", serves=("base",))
    world.put_noderole("n1", "base", served)
    below = NodeRole(state=State.BLOCKED, since=1.0, deployment="lab", parents=("base@n2", "gone@n2"))
    world.put_noderole("n1", "top", below)
    world.seal(
        Extent(
            nodes=["n1"],
            absent=["gone@n2"],
            of_nodes=[MachinePower],
            unread=[Publication],
            families=["top@n1"],
            clusters=[],
        )
    )
    return world


@pytest.mark.parametrize(
    "question",
    [
        lambda world: world.nodes.get("n3"),
        lambda world: "n3" in world.nodes,
        lambda world: list(world.nodes),
        lambda world: len(world.nodes),
        lambda world: sorted(world.nodes.items()),
        lambda world: {**world.nodes},
        lambda world: world.nodes.keys() & {"n1"},
        lambda world: list(world.vertices()),
        lambda world: world.vertex("other@n2"),
        lambda world: list(world.nodes["n2"].noderoles.values()),
        lambda world: world.nodes["n2"].busy,
        lambda world: bool(world.nodes["n2"].failed),
        lambda world: list(world.vertex("base@n2").children),
        lambda world: list(world.vertex("base@n1").children),
        lambda world: list(world.below("base@n2")),
        lambda world: world.below("other@n1"),
        lambda world: world.of(MachinePower).get("n2"),
        lambda world: list(world.of(MachinePower).items()),
        lambda world: world.of(Publication).get(("dns@n1", "n1")),
        lambda world: world.of(Publication).copy(),
        lambda world: world.parent("base@*lab"),
        lambda world: list(world.clusters.values()),
        lambda world: list(world.clusters["base@*lab"].members),
        lambda world: list(world.clusters["base@*lab"].below),
    ],
)
def test_a_question_about_an_unread_record_is_refused(question: Callable[[NearWorld], object]) -> None:
    with pytest.raises(Unread):
        question(part())


def test_a_question_about_a_record_that_was_read_or_is_known_to_be_absent_is_answered() -> None:
    world = part()
    top = world.vertex("top@n1")
    assert top is not None
    assert ([each.name for each in top.parents], top.waiting, list(top.children)) == (["base@n2"], 1, [])
    assert (world.vertex("gone@n2"), world.of(MachinePower).get("n1")) == (None, None)
    assert world.nodes["n1"].noderoles.keys() == {"base", "top"}
    assert (world.depth(top), world.nodes["n1"].busy) == (1, None)
