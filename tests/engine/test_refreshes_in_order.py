"""What is to be run again in place waits for what stands above it and is to be run again, too, however far above."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.readiness import Code, runnable, why_not
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model.records import Daemon, Deployment, DeploymentState, Fence, Node, NodeRole, Role, State

JIGS = ("script",)


@pytest.fixture
def world() -> World:
    """base@n1 <- middle@n1 <- top@n2, all ACTIVE; base and top are to be run again."""
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0, jigs=JIGS), 0), "annealer", "a1")
    for fqdn in ("n1", "n2"):
        made.put_node(fqdn, Node(alive=True), 0)
        made.put_fence(fqdn, 0, Fence())
    for fqdn, role, parents in (("n1", "base", ()), ("n1", "middle", ("base@n1",)), ("n2", "top", ("middle@n1",))):
        made.put(Stored(Role(barclamp="b", jig="script"), 0), role)
        refresh = role != "middle"
        made.put_noderole(fqdn, role, NodeRole.of(state=State.ACTIVE, since=0.0, parents=parents, refresh=refresh), 0)
    made.edges.turned.clear()
    return made


def of(world: World, name: str) -> Vertex:
    vertex = world.vertex(name)
    assert vertex is not None
    return vertex


def becomes(world: World, name: str, **fields: object) -> None:
    vertex = of(world, name)
    world.put_noderole(vertex.node.name, vertex.role, vertex.record.amended(**fields), vertex.version + 1)


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
    assert runnable(world, middle, 9.0, JIGS, {base: base.record.amended(refresh=False)})


def test_what_is_removed_holds_nothing_back(world: World) -> None:
    assert not runnable(world, of(world, "top@n2"), 9.0, JIGS)
    world.drop_noderole("n1", "base")
    assert of(world, "top@n2") in world.edges.turned
    assert world.edges.refreshing.vertices == {of(world, "top@n2")}


def test_what_runs_for_the_first_time_waits_for_no_refresh(world: World) -> None:
    becomes(world, "top@n2", state=State.TODO, refresh=False)
    assert runnable(world, of(world, "top@n2"), 9.0, JIGS)


def test_what_became_destructive_after_it_was_to_run_again_is_not_run_a_second_time(world: World) -> None:
    assert runnable(world, of(world, "base@n1"), 9.0, JIGS)
    world.put(Stored(Role(barclamp="b", jig="script", flags=("destructive",)), 1), "base")
    (reason,) = why_not(world, of(world, "base@n1"), 9.0)
    assert (reason.code, reason.advice) == (Code.DESTRUCTIVE_DONE, "nodepool-ocb noderole redeploy base@n1")


def site(size: int) -> World:
    """On each node a member of one cluster, and a child of that cluster; all are to be run again."""
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    made.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0, jigs=JIGS), 0), "annealer", "a1")
    for role in ("member", "child"):
        made.put(Stored(Role(barclamp="b", jig="script"), 0), role)
    for number in range(size):
        fqdn = f"n{number:03}"
        made.put_node(fqdn, Node(alive=True), 0)
        made.put_fence(fqdn, 0, Fence())
        for role, fields in (("member", {"serves": ("member",)}), ("child", {"parents": ("member@*system",)})):
            made.put_noderole(fqdn, role, NodeRole.of(state=State.ACTIVE, since=0.0, refresh=True, **fields), 0)
    made.put_gate("system", "member", 0, 0)
    made.edges.turned.clear()
    return made


def test_what_waits_for_many_is_looked_at_again_about_once_and_not_for_each_of_them() -> None:
    size, looked = 200, 0
    made = site(size)
    children = [of(made, f"child@n{number:03}") for number in range(size)]
    assert not any(runnable(made, child, 9.0, JIGS) for child in children)
    for number in range(size):
        becomes(made, f"member@n{number:03}", refresh=False)
        looked += len(made.edges.turned)
        assert all(runnable(made, child, 9.0, JIGS) is (number == size - 1) for child in made.edges.turned)
        made.edges.turned.clear()
    assert all(runnable(made, child, 9.0, JIGS) for child in children)
    assert size <= looked <= 2 * size


@pytest.mark.parametrize("order", [1, -1])
def test_in_whatever_order_they_are_done_everyone_who_waits_is_told_when_nobody_goes_first_any_more(order: int) -> None:
    made = site(5)
    for number in range(5)[::order]:
        assert not any(runnable(made, of(made, f"child@n{each:03}"), 9.0, JIGS) for each in range(5))
        made.edges.turned.clear()
        becomes(made, f"member@n{number:03}", refresh=False)
    assert {of(made, f"child@n{each:03}") for each in range(5)} <= made.edges.turned


def test_when_edges_change_who_waits_is_looked_at_again() -> None:
    made = site(2)
    becomes(made, "member@n000", refresh=False)
    child = of(made, "child@n000")
    assert not runnable(made, child, 9.0, JIGS)
    becomes(made, "member@n001", deployment="other")
    assert child in made.edges.turned
    assert runnable(made, child, 9.0, JIGS)
