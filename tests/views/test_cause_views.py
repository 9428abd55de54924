"""Noderoles in ERROR by cause: the same fault of many nodes is one row."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Node, State
from nodepool_ocb.views import causes
from nodepool_ocb.views.history.entries import EntryRow
from tests.views.small import N1, N2, put, small


@pytest.fixture
def world() -> World:
    """base and top on n1 in ERROR, at different times."""
    made = small()
    made.put_node(N1, Node(deployment="lab", addresses=("10.0.0.1:2222", "[fe80::1]", "n1:no"), rack="r1"), 0)
    made.put_node(N2, Node(deployment="lab", addresses=("10.0.0.2",)), 0)
    return made


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("connect: 10.0.0.1:2222: timed out", "connect: NODE: timed out"),
        ("connect: 10.0.0.1 port 2222: timed out", "connect: NODE port 2222: timed out"),
        ("fe80::1 and [fe80::1] refuse", "NODE and NODE refuse"),
        (f"{N1} is away", "NODE is away"),
        (f"{N1}.net is away", "NODE.net is away"),
        ("10.0.0.11 and 110.0.0.1 answer", "10.0.0.11 and 110.0.0.1 answer"),
        (f"x{N1} is away", f"x{N1} is away"),
        ("n1:no is away", "NODE is away"),
        ("exit status 3", "exit status 3"),
        ("", "no reason was recorded"),
        (None, "no reason was recorded"),
    ],
)
def test_a_cause_has_no_name_or_address_of_its_node(world: World, reason: str | None, cause: str) -> None:
    put(world, f"base@{N1}", State.ERROR, reason=reason)
    found = world.vertex(f"base@{N1}")
    assert found is not None
    assert causes.cause(found) == cause


def test_the_most_frequent_cause_is_the_first_and_names_its_oldest_noderoles(world: World) -> None:
    put(world, f"base@{N1}", State.ERROR, since=9.0, reason="connect: 10.0.0.1: timed out")
    put(world, f"base@{N2}", State.ERROR, since=4.0, reason="connect: 10.0.0.2: timed out")
    put(world, f"top@{N1}", State.ERROR, since=1.0, reason="disk full")
    groups = causes.grouped(each for each in world.vertices() if each.record.state is State.ERROR)
    assert causes.moments(groups) == (4.0, 1.0)
    entry = EntryRow(number=7, record=Entry(at=3.0, login="ann", host="desk", verb="node set", subjects=("n1", "n2")))
    first, second = causes.row(groups[0], entry), causes.row(groups[1], None)
    assert (first.cause, first.noderoles, first.nodes, first.racks) == ("connect: NODE: timed out", 2, 2, {"r1": 1})
    assert (first.roles, first.deployments, first.examples) == (("base",), ("lab",), (f"base@{N2}", f"base@{N1}"))
    assert (first.first, first.last) == (4.0, 9.0)
    assert (second.cause, second.noderoles, second.before) == ("disk full", 1, None)
    assert causes.line(first).before == "ann: node set n1"
    assert causes.line(second).before is None
