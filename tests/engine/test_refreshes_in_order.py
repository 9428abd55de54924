"""What is to be run again in place waits for what stands above it and is to be run again, too, however far above."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.readiness import Code, runnable, why_not
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model.records import Daemon, Deployment, DeploymentState, Fence, Node, NodeRole, Role, State

JIGS = ("script",)


@pytest.fixture
def world() -> World:
    """base@n1 <- middle@n1 <- top@n2, all ACTIVE; base and top are to be run again."""
    made = World()
    made.put_deployment("system", Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0))
    made.put_daemon("annealer", "a1", Daemon(host="h", pid=1, version="0", started=0.0, jigs=JIGS))
    for fqdn in ("n1", "n2"):
        made.put_node(fqdn, Node(alive=True), 0)
        made.put_fence(fqdn, 0, Fence())
    for fqdn, role, parents in (("n1", "base", ()), ("n1", "middle", ("base@n1",)), ("n2", "top", ("middle@n1",))):
        made.put_role(role, Stored(Role(barclamp="b", jig="script"), 0))
        refresh = role != "middle"
        made.put_noderole(fqdn, role, NodeRole(state=State.ACTIVE, since=0.0, parents=parents, refresh=refresh), 0)
    made.edges.turned.clear()
    return made


def of(world: World, name: str) -> Vertex:
    vertex = world.vertex(name)
    assert vertex is not None
    return vertex


def becomes(world: World, name: str, **fields: object) -> None:
    vertex = of(world, name)
    world.put_noderole(vertex.node.name, vertex.role, replace(vertex.record, **fields), vertex.version + 1)


def test_what_stands_above_goes_first(world: World) -> None:
    assert runnable(world, of(world, "base@n1"), 9.0, JIGS)
    (reason,) = why_not(world, of(world, "top@n2"), 9.0)
    assert (reason.code, reason.subject) == (Code.PARENT_WAITING, "base@n1")
    assert reason.advice == "nodepool-ocb noderole explain base@n1"


def test_while_what_stands_above_runs_it_waits_and_then_it_is_looked_at(world: World) -> None:
    becomes(world, "base@n1", state=State.TRANSITION)
    assert not runnable(world, of(world, "top@n2"), 9.0, JIGS)
    assert not world.edges.turned
    becomes(world, "base@n1", state=State.ACTIVE, refresh=False)
    assert world.edges.turned == {of(world, "top@n2")}
    assert runnable(world, of(world, "top@n2"), 9.0, JIGS)


def test_in_the_transaction_that_ends_what_goes_first_the_next_may_be_claimed(world: World) -> None:
    base = of(world, "base@n1")
    becomes(world, "middle@n1", refresh=True)
    middle = of(world, "middle@n1")
    assert not runnable(world, middle, 9.0, JIGS)
    assert runnable(world, middle, 9.0, JIGS, {base: replace(base.record, refresh=False)})


def test_what_is_removed_holds_nothing_back(world: World) -> None:
    world.drop_noderole("n1", "base")
    assert world.edges.refreshing == {of(world, "top@n2")}


def test_what_runs_for_the_first_time_waits_for_no_refresh(world: World) -> None:
    becomes(world, "top@n2", state=State.TODO, refresh=False)
    assert runnable(world, of(world, "top@n2"), 9.0, JIGS)
