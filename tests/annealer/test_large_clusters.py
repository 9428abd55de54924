"""Large clusters with real annealers: bound, committed, converged, a member refreshed, a machine dead and back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodepool_ocb.engine import binding, commands, liveness
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Create, Delete, Gate, Node, Role, Set, State
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import DEPLOYMENT, Fleet

PATIENCE_SECONDS = 300.0
N1 = "n1.example.com"


def until(fleet: Fleet, what: str, settled: str = "") -> World:
    """Wait until everything is ACTIVE; gives the world as it is then."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        world = load_world(fleet.session)
        left = [
            vertex for vertex in world.vertices() if vertex.record.state is not State.ACTIVE or vertex.record.refresh
        ]
        if not left:
            return world
        assert time.monotonic() < deadline, (
            what,
            settled,
            [(v.name, v.record.state, v.record.reason) for v in left[:5]],
        )
        time.sleep(0.2)


def lives(fleet: Fleet, count: int) -> None:
    fleet.add_role("osd", Role(barclamp="b", jig="test", flags=("cluster",)))
    fleet.add_role("client", Role(barclamp="b", jig="test", requires=("osd",)))
    names = [f"node{number:04}.example.com" for number in range(count)]
    for name in names:
        fleet.add_node(name, Node(virtual=True, alive=True, deployment=DEPLOYMENT))
    for role in ("osd", "client"):
        for name in names:
            fleet.write(lambda world, role=role, name=name: list(binding.plan(world, role, name, now=1.0).changes))  # type: ignore[misc]
    world = load_world(fleet.session)
    for changes in commands.apply_to(world, list(world.vertices()), Event.COMMIT, time.time()):
        fleet.session.commit(changes)
    fleet.annealer(slots=20, session_seconds=30.0).begin()
    world = until(fleet, "committed")
    runs = {vertex.name: vertex.record.generation for vertex in world.vertices()}

    fleet.happens(f"osd@{names[0]}", Event.REFRESH)
    world = until(fleet, "a member is refreshed")
    again = {vertex.name for vertex in world.vertices() if vertex.record.generation != runs[vertex.name]}
    assert again == {f"osd@{names[0]}"}, "the children go on"

    def dead(world: World) -> list[Change]:
        return liveness.died(world.nodes[names[1]], time.time(), "connect: refused")

    fleet.write(dead)
    fleet.write(lambda world: liveness.revived(world.nodes[names[1]], time.time()))
    world = until(fleet, "a machine was dead, and is back")
    generations = {vertex.name: vertex.record.generation for vertex in world.vertices()}
    assert all(generations[f"client@{name}"] > runs[f"client@{name}"] for name in names), "all run after the member"
    assert fleet.session.largest_bytes <= limits.MOST_BYTES
    assert fleet.session.largest_changes <= limits.MOST_CHANGES
    annealer = fleet.annealers[0]
    assert 0 < annealer.metric("nodepool_ocb_zookeeper_largest_bytes") <= limits.MOST_BYTES
    assert 0 < annealer.metric("nodepool_ocb_zookeeper_largest_changes") <= limits.MOST_CHANGES
    assert "more than one" not in annealer.said, "nothing was refused as too large"


@pytest.mark.long
@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.long)])
def test_a_cluster_of_many_members_and_children_lives_through_what_happens_to_one(
    zookeeper: Server, chroot: str, tmp_path: Path, count: int
) -> None:
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        lives(fleet, count)


@pytest.mark.long
def test_what_is_refused_because_a_gate_was_lost_is_tried_less_and_less_often_and_told_once(fleet: Fleet) -> None:
    fleet.add_role("base", Role(barclamp="b", jig="test"))
    fleet.add_role("osd", Role(barclamp="b", jig="test", flags=("cluster",), requires=("base",)))
    fleet.add_node(N1, Node(virtual=True, alive=True, deployment=DEPLOYMENT))
    fleet.write(lambda world: list(binding.plan(world, "osd", N1, now=1.0).changes))
    world = load_world(fleet.session)
    for changes in commands.apply_to(world, list(world.vertices()), Event.COMMIT, time.time()):
        fleet.session.commit(changes)
    annealer = fleet.annealer(slots=2, session_seconds=30.0, sweep_seconds=600.0).start()
    until(fleet, "committed")
    gate = paths.gate(DEPLOYMENT, "osd")
    znode = fleet.session.get(gate)
    assert znode is not None
    fleet.session.commit([Delete(gate, znode.version)])
    base = load_world(fleet.session).vertex(f"base@{N1}")
    assert base is not None
    began = time.monotonic()
    errs = base.record.amended(state=State.ERROR, reason="it broke")
    fleet.session.commit([Set(paths.noderole("base", N1), errs, base.version)])
    fleet.until(lambda: f"settle osd@{N1} was refused" in annealer.said, "it is reported", 60.0)
    assert time.monotonic() - began > 2.0
    assert gate in annealer.said
    fleet.session.commit([Create(gate, Gate())])
    fleet.until_state(f"osd@{N1}", State.BLOCKED)
    assert annealer.said.count("was refused") == 1
