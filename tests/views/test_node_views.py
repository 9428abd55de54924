"""Nodes as they are shown."""

from __future__ import annotations

from nodepool_ocb.model.records import Node, State
from nodepool_ocb.views import nodes
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, MIDDLE, N1, N2, TOP, put, small


def test_a_node_at_a_glance_tells_its_worst_state_and_whether_it_is_busy() -> None:
    first, second = nodes.rows(small(), now=1.0)
    assert list(plain(first).items()) == [
        ("name", N1),
        ("deployment", "lab"),
        ("alive", False),
        ("available", True),
        ("held", None),
        ("state", "ERROR"),
        ("noderoles", "1 ERROR, 2 BLOCKED"),
        ("tags", ["web"]),
        ("labels", {"room": "1"}),
        ("rack", None),
        ("since", 3.0),
        ("reason", "connect: refused"),
        ("busy", BASE),
    ]
    assert (second.name, second.alive, second.available, second.state, second.noderoles) == (
        N2,
        True,
        False,
        None,
        None,
    )


def test_a_node_that_no_annealer_has_probed_says_so_and_whether_it_has_an_address() -> None:
    world = small()
    world.put_node(N1, Node(), 1)
    assert nodes.rows(world, now=1.0)[0].reason == (
        "no annealer has probed it yet; it has no address, so its name must resolve"
    )
    world.put_node(N1, Node(addresses=("10.0.0.1",)), 2)
    assert nodes.rows(world, now=1.0)[0].reason == "no annealer has probed it yet"


def test_nodes_are_chosen_by_deployment_tags_and_labels() -> None:
    world = small()
    assert [row.name for row in nodes.rows(world, "lab", now=1.0)] == [N1]
    assert [row.name for row in nodes.rows(world, tags=["web"], labels={"room": "1"}, now=1.0)] == [N1]
    assert nodes.rows(world, tags=["web", "db"], now=1.0) == nodes.rows(world, labels={"room": "2"}, now=1.0) == []


def test_one_node_has_all_of_its_record_its_claim_and_its_noderoles_the_worst_first() -> None:
    world = small()
    put(world, MIDDLE, State.TODO)
    view = world.nodes[N1]
    assert view.record
    document = plain(nodes.document(view, view.record, 1.0))
    assert list(document)[:2] == ["name", "deployment"]
    assert list(document)[-3:] == ["epoch", "claim", "noderoles"]
    assert (document["addresses"], document["user"], document["epoch"]) == ((), "root", 6)
    assert document["claim"] == {"schema": 1, "annealer": "a1", "noderole": BASE, "run": "r1", "epoch": 6, "since": 8.0}
    assert [(each["noderole"], each["state"]) for each in document["noderoles"]] == [
        (BASE, "ERROR"),
        (MIDDLE, "TODO"),
        (TOP, "BLOCKED"),
    ]
    assert document["noderoles"][0] == {"noderole": BASE, "state": "ERROR", "since": 1.0, "reason": "disk full"}
