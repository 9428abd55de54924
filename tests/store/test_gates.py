"""Gates: a claim below a cluster is refused whenever a member changed that the claimer does not know of."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import claim, structure
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Create,
    Delete,
    Deployment,
    DeploymentState,
    Fence,
    Gate,
    Node,
    NodeRole,
    Raise,
    Role,
    Set,
    State,
    Structure,
)
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.load import WorldTree, load_world
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server

GATE = paths.gate("lab", "osd")
MEMBERS = ("osd@n1.example.com", "osd@n2.example.com")
CHILD = "client@n1.example.com"


class Deaf(Cache):
    """A cache to which the events of noderoles are lost."""

    def __init__(self, session: Session) -> None:
        self.woken = threading.Semaphore(0)
        self.deaf = False
        super().__init__(session, World(), self.woken.release, ahead=True)

    def _event(self, kind: str, path: str) -> None:
        if not (self.deaf and "/noderoles/" in path):
            super()._event(kind, path)


@pytest.fixture
def cluster(zk_session: Session) -> Session:
    """Two ACTIVE members, and a child that may start."""
    made: list[Change] = [
        Create(paths.role("osd"), Role(barclamp="b", jig="noop", flags=("cluster",))),
        Create(paths.role("client"), Role(barclamp="b", jig="noop", requires=("osd",))),
        Create(paths.deployment("lab"), Deployment(state=DeploymentState.COMMITTED)),
        Create(paths.deployment_roles("lab")),
        Create(paths.clusters("lab")),
        Create(GATE, Gate()),
    ]
    for name in MEMBERS:
        fqdn = name.partition("@")[2]
        made += [Create(paths.node(fqdn), Node(alive=True, deployment="lab")), Create(paths.fence(fqdn), Fence())]
        made += [Create(paths.noderoles(fqdn)), *bound(name, State.ACTIVE, serves=("osd",))]
    zk_session.commit([*made, *bound(CHILD, State.TODO, parents=("osd@*lab",))])
    return zk_session


def bound(name: str, state: State, **fields: Any) -> list[Change]:
    path = paths.noderole(*paths.split_noderole(name))
    return [Create(path, NodeRole.of(state=state, since=1.0, deployment="lab", **fields)), Create(f"{path}/runs")]


def claiming(world: World) -> list[Change]:
    vertex = world.vertex(CHILD)
    assert vertex is not None
    return claim.claiming(world, claim.take(world, vertex, "a", "r1", 1.0))


def taken_back(session: Session, name: str = MEMBERS[1]) -> list[Change]:
    """The member alone is PROPOSED again: its children are left to those who watch them."""
    vertex = load_world(session).vertex(name)
    assert vertex is not None
    moved = apply({vertex: Event.PROPOSE}, 2.0)
    return list(claim.writes(vertex, moved[vertex]))


def until_told(cache: Deaf, path: str) -> None:
    """Wait for an event, which wakes, and may be another's."""
    deadline = time.monotonic() + 30
    while path not in cache._arrivals.events and time.monotonic() < deadline:
        cache.woken.acquire(timeout=0.05)
    assert path in cache._arrivals.events


def test_a_claim_that_was_decided_before_a_member_ceased_to_be_satisfied_is_refused(
    cluster: Session, other: Session
) -> None:
    changes = claiming(load_world(cluster))
    other.commit(taken_back(other))
    with pytest.raises(Stale, match="clusters/osd"):
        cluster.commit(changes)


def test_a_claim_that_was_decided_before_a_member_joined_or_went_is_refused(cluster: Session, other: Session) -> None:
    changes = claiming(load_world(cluster))
    other.commit([*bound("bluestore@n1.example.com", State.PROPOSED, serves=("osd",)),
                  Raise(GATE, Gate(by="bluestore@n1.example.com"))])  # fmt: skip
    with pytest.raises(Stale, match="clusters/osd"):
        cluster.commit(changes)
    gone = paths.noderole("bluestore", "n1.example.com")
    world = load_world(other)
    other.commit(structure.raised(world, [Delete(f"{gone}/runs", 0), Delete(gone, 0)]))
    assert load_world(cluster).cluster_view("osd", "lab").gate == 2


def test_any_number_may_raise_a_gate_at_once(cluster: Session, other: Session) -> None:
    first, second = taken_back(cluster, MEMBERS[0]), taken_back(other, MEMBERS[1])
    cluster.commit(first)
    other.commit(second)
    assert load_world(cluster).cluster_view("osd", "lab").gate == 2


def test_a_gate_that_rose_is_shown_only_with_its_members_even_if_their_events_are_lost(
    cluster: Session, other: Session
) -> None:
    cache = Deaf(cluster)
    cache.load()
    cache.deaf = True
    other.commit(taken_back(other))
    until_told(cache, GATE)
    touched = cache.refresh()
    child = cache.world.vertex(CHILD)
    assert cache.world.cluster_view("osd", "lab").gate == 1
    assert child is not None
    assert child.waiting == 1, "the member was read again with its gate"
    assert child in touched.turned
    assert child.node.name in touched.nodes


def test_a_member_that_joined_is_found_by_its_gate_if_its_own_event_is_lost(cluster: Session, other: Session) -> None:
    cache = Deaf(cluster)
    cache.load()
    cache.deaf = True
    other.commit([*bound("bluestore@n1.example.com", State.PROPOSED, serves=("osd",)),
                  Raise(GATE, Gate(by="bluestore@n1.example.com"))])  # fmt: skip
    until_told(cache, GATE)
    cache.refresh()
    child = cache.world.vertex(CHILD)
    assert child is not None
    assert [parent.role for parent in child.parents] == ["osd", "osd", "bluestore"]
    assert child.waiting == 1


@pytest.mark.parametrize("by", ["x" * 100_000, "nobody", "osd@../n1", "osd@N1", ""])
def test_a_gate_that_a_hand_gave_the_name_of_no_noderole_stops_no_cache_and_nothing_is_claimed_below_it(
    cluster: Session, other: Session, by: str
) -> None:
    cache = Deaf(cluster)
    cache.load()
    gate = json.loads(cluster._client.get(GATE)[0])
    other._client.set(GATE, json.dumps(gate | {"by": by}).encode())
    until_told(cache, GATE)
    cache.refresh()
    assert GATE in cache.world.unreadable
    with pytest.raises(Stale, match="clusters/osd"):
        cluster.commit(claiming(cache.world))


def test_an_own_raise_shows_no_gate_that_is_newer_than_what_others_wrote(cluster: Session, other: Session) -> None:
    cache = Deaf(cluster)
    cache.load()
    cache.deaf = True
    own = taken_back(cluster, MEMBERS[0])
    other.commit(taken_back(other, MEMBERS[1]))
    cache.expect(own)
    cache.committed(own, cluster.commit(own))
    assert cache.world.cluster_view("osd", "lab").gate == 0, "two rose, and one is ours"
    cache.refresh()
    assert cache.world.cluster_view("osd", "lab").gate == 2
    assert {v.record.state for v in cache.world.vertices() if v.role == "osd"} == {State.PROPOSED}


def test_an_own_raise_that_is_the_only_one_costs_no_reading(cluster: Session) -> None:
    cache = Deaf(cluster)
    cache.load()
    own = taken_back(cluster, MEMBERS[0])
    cache.expect(own)
    cache.committed(own, cluster.commit(own))
    assert cache.world.cluster_view("osd", "lab").gate == 1
    assert cache.world.cluster_view("osd", "lab").waiting == 1


def test_the_size_of_the_largest_transaction_is_known(cluster: Session) -> None:
    before = cluster.largest_changes
    cluster.commit([Create(f"/ocb/x{number}") for number in range(before + 1)])
    assert cluster.largest_changes == before + 1
    assert cluster.largest_bytes > 100


class Interrupted(Session):
    """Something happens before a request: the ``left``-th of those that list names or read many records."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        super().__init__(settings)
        self.left = 0
        self.then: Callable[[], object] = lambda: None

    def _happen(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.then()

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        self._happen()
        return super().children_many(paths)

    def stream(self, paths: Iterable[str]) -> Iterator[Znode | None]:
        self._happen()
        return super().stream(paths)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("number", range(1, 6))
def test_a_member_that_joins_while_everything_is_read_is_in_no_view_with_its_gate_alone(
    other: Session, zk_settings: ZooKeeperSettings, number: int
) -> None:
    joined = "bluestore@n1.example.com"
    raised = Set(paths.STRUCTURE, Structure(), 0)
    changes = [*bound(joined, State.PROPOSED, serves=("osd",)), Raise(GATE, Gate(by=joined)), raised]
    with Interrupted(zk_settings) as interrupted:
        interrupted.then, interrupted.left = lambda: other.commit(changes), number
        cache = Cache(interrupted, World(), lambda: None)
        cache.load()
        assert interrupted.left <= 0
        with pytest.raises((Conflict, Stale)):
            interrupted.commit(claiming(cache.world))
        shown(cache, joined)
        cache.refresh()
        assert cache.world.cluster_view("osd", "lab").gate == 1
        assert cache.world.cluster_view("osd", "lab").waiting == 1


@pytest.mark.usefixtures("cluster")
def test_a_gate_that_is_read_after_the_connection_broke_is_not_shown_before_everything_was_read_anew(
    other: Session, zookeeper: Server, chroot: str
) -> None:
    joined = "bluestore@n1.example.com"
    with (
        Proxy(zookeeper.port) as proxy,
        Interrupted(ZooKeeperSettings(hosts=proxy.hosts + chroot, session_timeout_seconds=20.0)) as interrupted,
    ):

        def breaks() -> None:
            connections = interrupted.connections
            proxy.cut()
            other.commit([*bound(joined, State.PROPOSED, serves=("osd",)), Raise(GATE, Gate(by=joined))])
            other.commit([Raise(GATE, Gate(by=MEMBERS[0]))])
            proxy.heal()
            until(lambda: interrupted.connections > connections)

        woken = threading.Event()
        cache = Cache(interrupted, World(), woken.set)
        cache.load()
        other.commit([Raise(GATE, Gate(by=MEMBERS[0]))])
        assert woken.wait(30)
        interrupted.then, interrupted.left = breaks, 1
        cache.refresh()
        with pytest.raises((Conflict, Stale)):
            interrupted.commit(claiming(cache.world))


def test_gates_that_are_not_shown_are_given_to_be_read_again(cluster: Session) -> None:
    structure_read = cluster.get(paths.STRUCTURE)
    assert structure_read is not None
    assert WorldTree(World()).read(cluster, structure_read) == []
    before = WorldTree(World())
    assert before.read(cluster, replace(structure_read, mzxid=structure_read.mzxid - 1)) == [GATE]


def shown(cache: Cache, name: str) -> None:
    """Refresh until it is there."""

    def there() -> bool:
        cache.refresh()
        return cache.world.vertex(name) is not None

    until(there)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
