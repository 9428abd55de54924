"""Launched nodes become nodes of the cluster with committed noderoles, and leave it, in few transactions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim, nodes
from nodepool_ocb.engine.enrolling import Enrolment, EnrolmentPlan
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Node, Role, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.pool import enrolment
from nodepool_ocb.store.pool.enrolment import Dismissals
from nodepool_ocb.store.world.cache import Cache

DOMAIN = "example.com"


class Cluster:
    """A cluster with a few roles: ``ready`` needs ``os``, and every new node gets ``seen``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        roles = {
            "seen": Role(barclamp="b", jig="noop", flags=("discovery", "implicit")),
            "os": Role(barclamp="b", jig="noop", requires=("seen",), flags=("implicit",)),
            "ready": Role(barclamp="b", jig="noop", requires=("os",)),
            "bye": Role(barclamp="b", jig="noop", hooks=("on_node_delete",)),
        }
        for name, role in roles.items():
            if name != "bye":
                session.commit([Create(paths.role(name), role)])
        self.bye = roles["bye"]
        self.cache = Cache(session, World(), lambda: None)
        self.cache.load()

    @property
    def world(self) -> World:
        self.session.sync()
        self.cache.refresh()
        return self.cache.world

    def enrol(self, *fqdns: str, world: World | None = None, **fields: Any) -> EnrolmentPlan:
        wanted = [
            Enrolment(**{"launch": f"key-of-{f}", "node": Node(addresses=(f,)), "roles": ("ready",), **fields}, fqdn=f)
            for f in fqdns
        ]
        return enrolment.enrol(self.session, world or self.world, wanted, admin_domain=DOMAIN, jigs=None, by="l1")

    def dismiss(self, *fqdns: str) -> Dismissals:
        return enrolment.dismiss(self.session, self.world, {f: f"key-of-{f}" for f in fqdns}, by="l1")

    @property
    def structure(self) -> int:
        znode = self.session.get(paths.STRUCTURE)
        assert znode is not None
        return znode.version


@pytest.fixture
def cluster(zk_session: Session) -> Cluster:
    return Cluster(zk_session)


def names(count: int) -> list[str]:
    return [f"n{number}.{DOMAIN}" for number in range(count)]


def test_a_node_is_created_bound_and_committed_in_one_transaction(cluster: Cluster) -> None:
    (name,) = names(1)
    plan = cluster.enrol(name)
    assert plan.created == (name,)
    view = cluster.world.nodes[name]
    assert {role: vertex.record.state for role, vertex in view.noderoles.items()} == {
        "seen": State.TODO, "os": State.BLOCKED, "ready": State.BLOCKED
    }  # fmt: skip
    assert view.record is not None
    assert view.record.addresses == (name,)
    assert all(vertex.record.by == "l1" and vertex.version == 0 for vertex in view.noderoles.values())
    assert len({vertex.mzxid for vertex in view.noderoles.values()} | {view.mzxid}) == 1


def test_many_nodes_are_one_write_of_the_structure(cluster: Cluster) -> None:
    before = cluster.structure
    plan = cluster.enrol(*names(12))
    assert plan.created == tuple(names(12))
    assert cluster.structure == before + 1
    assert cluster.dismiss(*names(5)).gone == tuple(names(5))
    assert cluster.structure == before + 2
    assert sorted(cluster.world.nodes) == sorted(names(12)[5:])


def test_nodes_without_room_are_left_for_the_next_call(cluster: Cluster) -> None:
    wanted, calls = names(60), 0
    while wanted:
        plan = cluster.enrol(*wanted)
        assert plan.created
        wanted, calls = list(plan.left), calls + 1
    assert len(cluster.world.nodes) == 60
    assert calls < 6
    wanted, calls = names(60), 0
    while wanted:
        found = cluster.dismiss(*wanted)
        assert found.gone
        wanted, calls = list(found.waiting), calls + 1
    assert not cluster.world.nodes
    assert calls < 10


def test_a_node_that_exists_of_this_launch_is_left_as_it_is(cluster: Cluster) -> None:
    (name,) = names(1)
    cluster.enrol(name)
    before = cluster.structure
    again = cluster.enrol(name)
    assert (again.created, again.there, again.refused) == ((), (name,), {})
    assert cluster.structure == before


def test_a_node_of_a_person_is_neither_taken_nor_deleted(cluster: Cluster) -> None:
    (name,) = names(1)
    plan = nodes.create(cluster.world, name, Node(), admin_domain=DOMAIN, now=1.0)
    cluster.session.commit(plan.changes)
    refused = cluster.enrol(name).refused
    assert "exists already" in refused[name]
    assert cluster.dismiss(name).gone == (name,)  # the launched one
    assert name in cluster.world.nodes


def test_a_node_of_a_later_launch_with_the_same_name_stays(cluster: Cluster) -> None:
    (name,) = names(1)
    cluster.enrol(name, launch="second")
    assert cluster.dismiss(name).gone == (name,)
    assert name in cluster.world.nodes


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"fqdn": "n9.elsewhere.org"}, "admin domain"),
        ({"roles": ("nowhere",)}, "nowhere"),
        ({"node": Node(deployment="lab")}, "deployment lab does not exist"),
    ],
)
def test_a_node_that_cannot_be_created_keeps_no_other_back(
    cluster: Cluster, wrong: dict[str, Any], reason: str
) -> None:
    first, second, third = names(3)
    good = Enrolment(fqdn=first, launch="1", node=Node(), roles=("ready",))
    bad = replace(good, **{"fqdn": second, **wrong})
    more = replace(good, fqdn=third)
    plan = enrolment.enrol(cluster.session, cluster.world, [good, bad, more], admin_domain=DOMAIN, jigs=None)
    assert plan.created == (first, third)
    assert reason in plan.refused[bad.fqdn]
    assert sorted(cluster.world.nodes) == [first, third]


def test_a_change_of_the_structure_meanwhile_leaves_all_for_the_next_call(cluster: Cluster) -> None:
    world = cluster.world
    cluster.session.commit([Create(paths.node("else"), Node()), *_structure(cluster)])
    plan = cluster.enrol(*names(2), world=world)
    assert (plan.created, plan.left) == ((), tuple(names(2)))
    assert cluster.enrol(*names(2)).created == tuple(names(2))


def _structure(cluster: Cluster) -> list[Change]:
    stored = cluster.cache.world.structure
    assert stored is not None
    return [Set(paths.STRUCTURE, stored.record, stored.version)]


def test_a_node_with_a_run_is_marked_and_its_run_is_cancelled(cluster: Cluster) -> None:
    (name,) = names(1)
    cluster.enrol(name)
    world = cluster.world
    vertex = world.nodes[name].noderoles["seen"]
    grant = claim.take(world, vertex, "a1", "r1", 2.0)
    cluster.session.commit([*claim.claiming(world, grant)])
    assert cluster.dismiss(name).waiting == {name: enrolment.LEAVING}
    view = cluster.world.nodes[name]
    assert view.record is not None
    assert view.record.deleting
    assert view.noderoles["seen"].record.cancel_reason
    before = cluster.structure
    assert cluster.dismiss(name).waiting == {name: enrolment.LEAVING}  # nothing is written twice
    assert cluster.structure == before


def test_a_node_waits_for_the_hooks_of_its_deletion(cluster: Cluster) -> None:
    cluster.session.commit([Create(paths.role("bye"), cluster.bye), *_structure(cluster)])
    (name,) = names(1)
    cluster.enrol(name)
    assert cluster.dismiss(name).waiting == {name: enrolment.LEAVING}
    view = cluster.world.nodes[name]
    assert view.record is not None
    cluster.session.commit(
        [Set(paths.node(name), replace(view.record, hooks=()), view.version)]
    )  # an annealer ran them
    assert cluster.dismiss(name).gone == (name,)
    assert not cluster.world.nodes


def test_a_node_that_the_world_does_not_show_yet_is_not_gone(cluster: Cluster) -> None:
    """A launcher that takes over may see the record of the launch before it sees the node."""
    (name,) = names(1)
    blind = World()
    cluster.enrol(name)
    found = enrolment.dismiss(cluster.session, blind, {name: f"key-of-{name}"})
    assert (found.gone, found.waiting) == ((), {name: enrolment.CHANGED})


def test_a_node_too_large_for_one_transaction_is_deleted_in_parts(cluster: Cluster) -> None:
    (name,) = names(1)
    cluster.enrol(name)
    folder = paths.runs("seen", name)
    for number in range(0, 600, 200):
        cluster.session.commit([Create(f"{folder}/{each:010}") for each in range(number, number + 200)])
    assert cluster.dismiss(name).gone == (name,)
    assert not cluster.world.nodes
    assert cluster.session.get(paths.node(name)) is None
