"""A noderole goes back to BLOCKED only while a parent is unsatisfied in ZooKeeper, whatever older record a world has."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim
from nodepool_ocb.engine.noderole import settle
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.store.test_order_of_skips import A, B, build, states


def vertex_of(world: World, name: str) -> Vertex:
    found = world.vertex(name)
    assert found is not None
    return found


def written(session: Session, role: str, node: str, state: State) -> None:
    """By a writer that does not settle the children."""
    vertex = vertex_of(load_world(session), f"{role}@{node}")
    session.commit([Set(paths.noderole(role, node), replace(vertex.record, state=state), vertex.version)])


def settling(world: World, *names: str) -> list[list[Change]]:
    moved = settle({}, 9.0, also=[vertex_of(world, name) for name in names])
    assert moved[vertex_of(world, names[0])].state is State.BLOCKED
    return list(claim.settlings(moved))


@pytest.mark.parametrize(("cluster", "role", "node"), [(False, "p2", A), (True, "p1", B)])
def test_a_noderole_is_not_set_back_by_an_older_record_of_its_parent(
    zk_session: Session, cluster: bool, role: str, node: str
) -> None:
    build(zk_session, cluster=cluster, destructive=False)
    written(zk_session, role, node, State.TRANSITION)
    older = vertex_of(load_world(zk_session), f"{role}@{node}")
    written(zk_session, role, node, State.ACTIVE)
    world = load_world(zk_session)
    world.put_noderole(node, role, older.record, older.version, older.mzxid)
    (changes,) = settling(world, f"c@{A}")
    with pytest.raises(Stale):
        zk_session.commit(changes)
    assert set(states(zk_session).values()) == {State.ACTIVE}


@pytest.mark.parametrize(("cluster", "role", "node"), [(False, "p2", A), (True, "p1", B)])
def test_a_noderole_is_set_back_with_its_children_while_its_parent_is_unsatisfied(
    zk_session: Session, cluster: bool, role: str, node: str
) -> None:
    build(zk_session, cluster=cluster, destructive=False)
    written(zk_session, role, node, State.TRANSITION)
    for changes in settling(load_world(zk_session), f"c@{A}"):
        zk_session.commit(changes)
    after = states(zk_session)
    assert (after["c"], after["d"], after[role]) == (State.BLOCKED, State.BLOCKED, State.TRANSITION)
