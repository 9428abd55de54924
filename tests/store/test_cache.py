"""A world that follows ZooKeeper: everything is seen, own writes cost nothing, and no read is made in vain."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Create,
    Daemon,
    Delete,
    Deployment,
    DeploymentRole,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Set,
    State,
)
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server


class Counted(Cache):
    """A cache that says when it was woken."""

    def __init__(self, session: Session, ahead: bool = False) -> None:
        self.woken = threading.Semaphore(0)
        super().__init__(session, World(), self.woken.release, ahead)


def machine(fqdn: str, *roles: str, state: State = State.TODO, parents: tuple[str, ...] = ()) -> list[Change]:
    return [
        Create(paths.node(fqdn), Node(alive=True)),
        Create(paths.fence(fqdn)),
        Create(paths.noderoles(fqdn)),
        *(Create(paths.noderole(role, fqdn), NodeRole(state=state, since=1.0, parents=parents)) for role in roles),
    ]


def requests(session: Session) -> int:
    """How many requests this session's connection has sent."""
    sent: int = session._client._connection._xid
    return sent


def picture(world: World) -> dict[str, Any]:
    """Everything that two worlds must agree on."""
    return {
        "nodes": {
            name: (v.record, v.version, v.mzxid, v.fence, v.claim, v.claim_owner) for name, v in world.nodes.items()
        },
        "noderoles": {
            v.name: (v.record, v.version, v.mzxid, v.waiting, sorted(p.name for p in v.parents))
            for v in world.vertices()
        },
        "rest": (world.roles, world.deployments, world.deployment_roles, world.cluster),
        "daemons": {kind: daemons for kind, daemons in world.daemons.items() if daemons},
    }  # fmt: skip


def test_loading_shows_everything(zk_session: Session) -> None:
    zk_session.commit(
        machine("n1.example.com", "os") + machine("n2.example.com", "ntp", parents=("os@n1.example.com",))
    )
    zk_session.commit(
        [
            Create(paths.role("os"), Role(barclamp="os", jig="noop")),
            Create(paths.deployment("web"), Deployment(by="me")),
            Create(paths.deployment_roles("web")),
            Create(paths.deployment_role("web", "os"), DeploymentRole(user={"a": 1})),
            Create(paths.daemon("annealer", "a1"), Daemon(host="h", pid=1, version="1", started=1.0), ephemeral=True),
            Create(paths.claim("n1.example.com"), Claim(annealer="a1", noderole="os@n1.example.com", run="r", epoch=1,
                                                         since=1.0), ephemeral=True),
            Create(paths.user("os", "n1.example.com"), {"not": "read"}),
        ]
    )  # fmt: skip
    world = load_world(zk_session)
    assert world.cluster is not None
    assert len(world.cluster.record.id) == 36
    assert set(world.deployments) == {"system", "web"}
    assert world.deployment_roles["web", "os"].record.user == {"a": 1}
    assert world.annealers["a1"].host == "h"
    node = world.nodes["n1.example.com"]
    assert (node.fence, node.claim_owner) == (0, zk_session.id)
    ntp = world.vertex("ntp@n2.example.com")
    assert ntp is not None
    assert [parent.name for parent in ntp.parents] == ["os@n1.example.com"]
    assert ntp.waiting == 1


def test_bootstrap_twice_changes_nothing(zk_session: Session, other: Session) -> None:
    first = zk_session.get(paths.CLUSTER)
    clusters.bootstrap(other)
    assert other.get(paths.CLUSTER) == first


def test_what_others_write_wakes_and_is_seen(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    cache.load()
    other.commit(machine("n1", "os", "ntp"))
    assert cache.woken.acquire(timeout=5)
    other.sync()
    zk_session.sync()
    touched = cache.refresh()
    assert {vertex.name for vertex in touched.vertices} == {"os@n1", "ntp@n1"}
    assert touched.nodes == {"n1"}
    other.commit([Delete(paths.noderole("ntp", "n1"), 0)])
    assert cache.woken.acquire(timeout=5)
    zk_session.sync()
    assert {vertex.name for vertex in cache.refresh().vertices} == {"ntp@n1"}
    assert cache.world.vertex("ntp@n1") is None
    assert not cache.refresh()


def test_a_record_that_is_read_again_is_no_change(zk_session: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os"))
    cache.load()
    path = paths.noderole("os", "n1")
    cache._tree.put(path, zk_session.get(path))
    assert not cache._tree.changes()


def test_own_writes_are_seen_at_once_and_cost_no_read(zk_session: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os"))
    cache.load()
    while cache.woken.acquire(blocking=False):
        pass
    changes: list[Change] = [
        Set(paths.fence("n1"), None, 0),
        Create(paths.claim("n1"), Claim(annealer="a", noderole="os@n1", run="r", epoch=1, since=1.0), ephemeral=True),
        Set(paths.noderole("os", "n1"), NodeRole(state=State.TRANSITION, since=2.0), 0),
        Create(paths.wall("os", "n1"), {"a": 1}),
    ]  # fmt: skip
    cache.expect(changes)
    stats = zk_session.commit(changes)
    sent = requests(zk_session)
    cache.committed(changes, stats)
    node = cache.world.nodes["n1"]
    assert (node.fence, node.claim_owner) == (1, zk_session.id)
    assert node.busy is cache.world.vertex("os@n1")
    assert cache.refresh().nodes == {"n1"}
    assert not cache.refresh()
    assert requests(zk_session) == sent
    assert not cache.woken.acquire(blocking=False)
    assert picture(cache.world) == picture(load_world(zk_session))


def test_anothers_write_among_own_ones_is_not_missed(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os"))
    cache.load()
    path = paths.noderole("os", "n1")
    changes: list[Change] = [Set(path, NodeRole(state=State.TRANSITION, since=2.0), 0)]
    cache.expect(changes)
    stats = zk_session.commit(changes)
    other.commit([Set(path, NodeRole(state=State.ACTIVE, since=3.0), 1)])
    zk_session.sync()  # its event has come by now, before we look at our own answer
    cache.committed(changes, stats)
    assert cache.woken.acquire(timeout=5)
    cache.refresh()
    vertex = cache.world.vertex("os@n1")
    assert vertex is not None
    assert (vertex.record.state, vertex.version) == (State.ACTIVE, 2)


def test_an_answer_that_comes_late_does_not_hide_a_newer_record(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os"))
    cache.load()
    path = paths.noderole("os", "n1")
    changes: list[Change] = [Set(path, NodeRole(state=State.TRANSITION, since=2.0), 0)]
    cache.expect(changes)
    stats = zk_session.commit(changes)
    other.commit([Set(path, NodeRole(state=State.ACTIVE, since=3.0), 1)])
    zk_session.sync()
    cache.load()
    cache.committed(changes, stats)
    vertex = cache.world.vertex("os@n1")
    assert vertex is not None
    assert (vertex.record.state, vertex.version) == (State.ACTIVE, 2)


def test_a_refused_write_leaves_the_others_to_be_read(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os"))
    cache.load()
    path = paths.noderole("os", "n1")
    changes: list[Change] = [Set(path, NodeRole(state=State.TRANSITION, since=2.0), 0)]
    cache.expect(changes)
    other.commit([Set(path, NodeRole(state=State.ERROR, since=3.0), 0)])
    zk_session.sync()
    cache.refused(changes)
    assert {vertex.name for vertex in cache.refresh().vertices} == {"os@n1"}


def test_a_claim_that_goes_and_comes_in_one_transaction(zk_session: Session) -> None:
    cache = Counted(zk_session)
    path = paths.claim("n1")
    claims = [Claim(annealer="a", noderole="os@n1", run=run, epoch=1, since=1.0) for run in ("r1", "r2")]
    zk_session.commit([*machine("n1", "os"), Create(path, claims[0], ephemeral=True)])
    cache.load()
    changes: list[Change] = [Delete(path, 0), Create(path, claims[1], ephemeral=True)]
    cache.expect(changes)
    cache.committed(changes, zk_session.commit(changes))
    sent = requests(zk_session)
    cache.refresh()
    assert requests(zk_session) == sent
    assert cache.world.nodes["n1"].claim == claims[1]


def test_blobs_and_runs_wake_nobody(zk_session: Session, other: Session) -> None:
    zk_session.commit(machine("n1", "os"))
    cache = Counted(zk_session)
    cache.load()
    other.commit([Create(paths.wall("os", "n1"), {"a": 1}), Create(paths.runs("os", "n1"))])
    other.commit([Create(paths.run("os", "n1", "r1"), {"x": 1})])
    zk_session.sync()
    assert not cache.woken.acquire(blocking=False)


def test_attributes_that_cannot_be_read_are_followed_until_they_can_be(zk_session: Session, other: Session) -> None:
    wall = paths.wall("os", "n1")
    cache = Counted(zk_session)
    zk_session.commit([*machine("n1", "os"), Create(wall, {"a": 1})])
    cache.load()
    other.commit([Set(wall, "no object", 0)])
    zk_session.sync()
    assert cache.quarantined == {}  # nobody has read them
    cache.spoiled(wall, "these are no attributes")
    cache.refresh()
    assert list(cache.quarantined) == [wall]
    while cache.woken.acquire(blocking=False):
        pass
    other.commit([Set(wall, {}, 1)])
    assert cache.woken.acquire(timeout=5)
    zk_session.sync()
    assert cache.refresh().attributes
    assert cache.quarantined == {}


def test_a_new_session_follows_attributes_that_could_not_be_read_before(zk_session: Session, other: Session) -> None:
    wall = paths.wall("os", "n1")
    cache = Counted(zk_session)
    zk_session.commit([*machine("n1", "os"), Create(wall, {"a": 1})])
    other.commit([Set(wall, "no object", 0)])
    cache.load()
    cache.spoiled(wall, "these are no attributes")
    cache.refresh()
    cache.load()
    while cache.woken.acquire(blocking=False):
        pass
    other.commit([Set(wall, {}, 1)])
    assert cache.woken.acquire(timeout=5)


def test_the_record_of_another_holds_the_names_of_its_parents_once(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os") + machine("n2", "ntp", parents=("os@n1",)))
    cache.load()
    child, parent = cache.world.vertex("ntp@n2"), cache.world.vertex("os@n1")
    assert child is not None
    assert parent is not None
    other.commit([Set(paths.noderole("ntp", "n2"), NodeRole(state=State.ACTIVE, since=2.0, parents=("os@n1",)), 0)])
    assert cache.woken.acquire(timeout=5)
    zk_session.sync()
    changes = cache.refresh()
    assert (changes.vertices, changes.nodes) == ({child}, {"n2"})
    assert (child.record.state, child.version) == (State.ACTIVE, 1)
    assert child.record.parents[0] is parent.name


def test_only_undecodable_records_are_quarantined(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os", "ntp"))
    cache.load()
    broken = paths.noderole("os", "n1")
    other.commit([Set(broken, {"schema": 1, "state": "SIDEWAYS"}, 0), Set(paths.node("n1"), [1], 0)])
    zk_session.sync()
    cache.refresh()
    assert set(cache.quarantined) == {broken, paths.node("n1")}
    assert broken in cache.quarantined[broken]
    last = cache.world.vertex("os@n1")
    assert last is not None
    assert (last.record.state, last.unreadable) == (State.TODO, True)  # the last good record, marked
    assert cache.world.nodes["n1"].record == Node(alive=True)
    anew = load_world(zk_session)
    assert set(anew.unreadable) == set(cache.quarantined)
    assert anew.vertex("os@n1") is None
    assert anew.vertex("ntp@n1") is not None
    assert anew.nodes["n1"].record is None
    cache.load()
    assert set(cache.quarantined) == {broken, paths.node("n1")}
    other.commit([Set(broken, NodeRole(state=State.TODO, since=1.0), 1), Set(paths.node("n1"), Node(), 1)])
    zk_session.sync()
    cache.refresh()
    assert cache.quarantined == {}
    assert not last.unreadable
    assert last is cache.world.vertex("os@n1")


OF_EVERY_KIND: dict[str, Record] = {
    paths.node("n1"): Node(alive=True),
    paths.noderole("os", "n1"): NodeRole(state=State.ACTIVE, since=1.0),
    paths.claim("n1"): Claim(annealer="a", noderole="os@n1", run="r", epoch=1, since=1.0),
    paths.role("os"): Role(barclamp="b", jig="noop", hooks=("on_todo",)),
    paths.deployment("web"): Deployment(by="me"),
    paths.deployment_role("web", "os"): DeploymentRole(user={"a": 1}),
    paths.rollouts("web"): RolloutPointer(newest="0000000001", over=False),
    paths.daemon("annealer", "a"): Daemon(host="h", pid=1, version="1", started=1.0),
}


def every_kind(session: Session) -> None:
    session.ensure(paths.NODES + "/n1/noderoles", paths.deployment_roles("web"), paths.ROLLOUTS)
    session.ensure(paths.fence("n1"), paths.daemons("annealer"))
    for path, record in OF_EVERY_KIND.items():
        znode = session.get(path)
        session.commit([Create(path, record) if znode is None else Set(path, record, znode.version)])


@pytest.mark.parametrize("path", OF_EVERY_KIND)
def test_the_last_good_record_of_every_kind_stays_and_all_whom_it_concerns_look_again(
    zk_session: Session, other: Session, path: str
) -> None:
    every_kind(zk_session)
    other.commit(machine("n2", "app", parents=("os@n1",)))
    cache = Counted(zk_session)
    cache.load()
    whole = picture(cache.world) | {"rollouts": dict(cache.world.rollouts)}
    znode = other.get(path)
    assert znode is not None
    other.commit([Set(path, {"schema": 2, "state": "of a later version"}, znode.version)])
    zk_session.sync()
    assert cache.refresh()
    assert list(cache.world.unreadable) == [path]
    assert picture(cache.world) | {"rollouts": dict(cache.world.rollouts)} == whole
    assert not cache.sweep()
    assert list(cache.world.unreadable) == [path]
    other.commit([Set(path, OF_EVERY_KIND[path], znode.version + 1)])
    zk_session.sync()
    touched = cache.refresh()
    assert touched
    assert cache.world.unreadable == {}
    if path == paths.noderole("os", "n1"):
        assert touched.nodes == {"n1", "n2"}
        assert {vertex.name for vertex in touched.vertices} == {"os@n1", "app@n2"}
    assert picture(cache.world) == picture(load_world(other))


def test_a_fence_that_holds_garbage_counts_all_the_same(zk_session: Session, other: Session) -> None:
    every_kind(zk_session)
    cache = Counted(zk_session)
    cache.load()
    other.commit([Set(paths.fence("n1"), ["garbage"], 0)])
    zk_session.sync()
    cache.refresh()
    assert cache.world.nodes["n1"].fence == 1
    assert cache.world.unreadable == {}


def test_an_own_write_that_is_answered_late_does_not_hide_what_came_after_it(
    zk_session: Session, other: Session
) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os"))
    cache.load()
    path = paths.noderole("os", "n1")
    changes: list[Change] = [Set(path, NodeRole(state=State.ACTIVE, since=2.0), 0)]
    cache.expect(changes)
    stats = zk_session.commit(changes)
    other.commit([Set(path, {"schema": 2}, 1)])
    cache.sweep()
    assert list(cache.quarantined) == [path]
    cache.committed(changes, stats)
    cache.refresh()
    assert list(cache.quarantined) == [path]


@pytest.mark.parametrize("path", OF_EVERY_KIND)
def test_what_was_deleted_while_we_were_cut_off_is_not_unreadable_any_more(
    zookeeper: Server, chroot: str, zk_session: Session, path: str, until: Any
) -> None:
    every_kind(zk_session)
    znode = zk_session.get(path)
    assert znode is not None
    zk_session.commit([Set(path, {"schema": 2}, znode.version)])
    up = threading.Event()
    with Proxy(zookeeper.port) as proxy:
        settings = ZooKeeperSettings(hosts=proxy.hosts + chroot, session_timeout_seconds=20.0)
        with Session(settings, on_connected=up.set) as session:
            cache = Counted(session)
            cache.load()
            assert list(cache.quarantined) == [path]
            up.clear()
            proxy.cut()
            zk_session.commit(list(removal(zk_session, path)))
            proxy.heal()
            assert up.wait(20)
            until(lambda: session.trusted)
            cache.sweep()
            assert cache.quarantined == {}
            assert picture(cache.world) == picture(load_world(zk_session))


def test_a_sweep_finds_what_no_watch_told(zk_session: Session, other: Session) -> None:
    cache = Counted(zk_session)
    zk_session.commit(machine("n1", "os", "ntp") + machine("n2", "os"))
    cache.load()
    zk_session._client.watchers.clear()
    other.commit(
        [
            Set(paths.noderole("os", "n1"), NodeRole(state=State.ACTIVE, since=2.0), 0),
            Delete(paths.noderole("ntp", "n1"), 0),
            *(Delete(path, 0) for path in (paths.noderole("os", "n2"), paths.noderoles("n2"), paths.fence("n2"))),
            Delete(paths.node("n2"), 0),
            *machine("n3", "os"),
        ]
    )  # fmt: skip
    assert not cache.refresh()
    touched = cache.sweep()
    assert {vertex.name for vertex in touched.vertices} == {"os@n1", "ntp@n1", "os@n2", "os@n3"}
    assert touched.nodes == {"n1", "n2", "n3"}
    assert picture(cache.world) == picture(load_world(other))


def test_sweeping_10_000_noderoles_takes_40_requests_and_one_if_nothing_was_written(zk_session: Session) -> None:
    for number in range(200):
        zk_session.commit(machine(f"n{number}", *(f"role-{each}" for each in range(50))))
    cache = Counted(zk_session)
    cache.load()
    sent = requests(zk_session)
    assert not cache.sweep()
    assert requests(zk_session) - sent == 1
    zk_session.commit([Create("/ocb/something")])
    sent = requests(zk_session)
    assert not cache.sweep()
    assert requests(zk_session) - sent <= 40


@pytest.mark.parametrize("ahead", [False, True])
def test_a_cache_survives_cuts_with_random_writes_around_them(
    zookeeper: Server, chroot: str, zk_session: Session, until: Any, ahead: bool
) -> None:
    source = random.Random(4)
    up = threading.Event()
    with Proxy(zookeeper.port) as proxy:
        settings = ZooKeeperSettings(hosts=proxy.hosts + chroot)
        session = Session(settings, on_connected=up.set)
        session.start()
        try:
            cache = Counted(session, ahead)
            zk_session.commit(machine("n1", *(f"r{number}" for number in range(20))))
            cache.load()
            versions = [0] * 20
            for _ in range(10):
                up.clear()
                for step in range(30):
                    number = source.randrange(20)
                    record = NodeRole(state=source.choice(list(State)), since=source.random())
                    zk_session.commit([Set(paths.noderole(f"r{number}", "n1"), record, versions[number])])
                    versions[number] += 1
                    if step == 10:
                        proxy.cut()
                    if step == 20:
                        proxy.heal()
                assert up.wait(10)
                session.sync()
                cache.refresh()  # knows by itself that it must sweep
                assert picture(cache.world) == picture(load_world(zk_session))
                zk_session.commit([Set(paths.noderole("r0", "n1"), NodeRole(state=State.TODO, since=9.0), versions[0])])
                versions[0] += 1
                until(lambda: cache.refresh())
                assert picture(cache.world) == picture(load_world(zk_session))
        finally:
            session.close()
