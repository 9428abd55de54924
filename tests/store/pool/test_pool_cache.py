"""The view of a pool: every record, whoever wrote it, and however the events came."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock as KazooLock

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Append, Create, Daemon, Delete, LockOwner, Set
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool.cache import PoolCache
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server

Connect = Callable[..., Session]
Until = Callable[..., None]
ME = LockOwner(daemon="l1", host="h", pid=1, purpose="launch", since=1.0)


@pytest.fixture
def held(zk_session: Session) -> HeldLocks:
    return HeldLocks(zk_session)


@pytest.fixture
def cache(zk_session: Session, held: HeldLocks) -> PoolCache:
    made = PoolCache(zk_session, held, lambda: None)
    made.load()
    return made


def add_request(session: Session, priority: str = "100", **fields: Any) -> str:
    record = NodeRequest(**{"state": RequestState.REQUESTED, "state_time": 1.0, "node_types": ("a",), **fields})
    return session.create_next(f"{paths.REQUESTS}/{priority}-", record).rpartition("/")[2]


def add_node(session: Session, state: PoolNodeState = PoolNodeState.READY, **fields: Any) -> str:
    record = PoolNode(**{"state": state, "state_time": 1.0, "type": ("a",), **fields})
    return session.create_next(f"{paths.POOL_NODES}/", record).rpartition("/")[2]


def fresh(cache: PoolCache, session: Session) -> PoolCache:
    session.sync()
    cache.refresh()
    return cache


def test_a_load_shows_all_requests_and_nodes(zk_session: Session) -> None:
    zk_session.ensure(paths.REQUESTS, paths.POOL_NODES)
    request, node = add_request(zk_session), add_node(zk_session)
    again = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    again.load()
    view = again.view()
    assert (list(view.requests), list(view.nodes)) == ([request], [node])
    assert view.nodes[node].free
    assert view.requests[request].record.node_types == ("a",)
    assert abs(view.requests[request].created - zk_session.now()) < 60


def test_changes_and_deletions_are_shown(zk_session: Session, cache: PoolCache) -> None:
    request, node = add_request(zk_session), add_node(zk_session)
    fresh(cache, zk_session)
    before = cache.view()
    path = paths.request(request)
    zk_session.commit(
        [Set(path, NodeRequest(state=RequestState.PENDING, state_time=2.0), 0), Delete(paths.pool_node(node), 0)]
    )
    assert fresh(cache, zk_session).view().requests[request].record.state is RequestState.PENDING
    assert cache.view().requests[request].version == 1
    assert not cache.view().nodes
    assert list(before.nodes) == [node]  # a view does not change later
    zk_session.commit([Delete(path, 1)])
    assert not fresh(cache, zk_session).view().requests


def test_a_slot_is_never_shown_without_a_node_while_the_next_one_takes_its_place(
    zk_session: Session, cache: PoolCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = add_node(zk_session)
    fresh(cache, zk_session)
    record, read = PoolNode(state=PoolNodeState.READY, state_time=2.0, type=("a",)), cache.nodes.read

    def renewed(session: SessionReads, names: Iterable[str]) -> None:
        """The node is replaced just before its change is read."""
        wanted = set(names)
        if former in wanted and session.get(paths.pool_node(former)) is not None:
            zk_session.commit([Delete(paths.pool_node(former), 1), Append(paths.POOL_NODES, record)])
        read(session, wanted)

    monkeypatch.setattr(cache.nodes, "read", renewed)
    zk_session.commit([Set(paths.pool_node(former), record, 0)])
    fresh(cache, zk_session)
    (shown,) = cache.view().nodes.values()
    assert shown.id > former


def test_nothing_is_read_while_nothing_changes(zk_session: Session, cache: PoolCache) -> None:
    add_request(zk_session)
    fresh(cache, zk_session)
    before = cache.view()
    zxid = zk_session.last_zxid
    assert not cache.refresh()
    assert cache.view().requests == before.requests
    assert zk_session.last_zxid == zxid


def test_locks_of_ours_and_of_kazoo_are_shown(
    zk_session: Session, kazoo: KazooClient, cache: PoolCache, held: HeldLocks
) -> None:
    request, other, node = add_request(zk_session), add_request(zk_session), add_node(zk_session)
    theirs = KazooLock(kazoo, paths.request_lock(other), identifier="nl02")
    assert theirs.acquire(blocking=False)
    of_node = KazooLock(kazoo, paths.pool_node_lock(node))
    assert of_node.acquire(blocking=False)
    assert held.take(paths.request_lock(request), ME)
    view = fresh(cache, zk_session).view()
    assert (view.requests[request].locked_by, view.requests[request].ours) == ("l1", True)
    assert (view.requests[other].locked_by, view.requests[other].ours) == ("nl02", False)
    assert (view.nodes[node].locked, view.nodes[node].ours) == (True, False)
    theirs.release(), of_node.release()
    held.release(paths.request_lock(request))
    view = fresh(cache, zk_session).view()
    assert [(each.locked_by, each.ours) for each in view.requests.values()] == [(None, False)] * 2
    assert not view.nodes[node].locked


def test_a_lock_counts_as_ours_as_soon_as_this_process_knows_it(
    zk_session: Session, cache: PoolCache, held: HeldLocks
) -> None:
    """Its event may come, and be read, before the thread that takes it has its answer."""
    node = add_node(zk_session)
    lock = paths.pool_node_lock(node)
    owner = HeldLocks(zk_session)
    assert owner.take(lock, ME)
    assert not fresh(cache, zk_session).view().nodes[node].ours
    held._held.update(owner._held)
    held.changes += 1
    assert cache.view().nodes[node].ours


def test_a_lock_that_another_client_broke_is_not_ours(zk_session: Session, cache: PoolCache, held: HeldLocks) -> None:
    node = add_node(zk_session)
    lock = held.take(paths.pool_node_lock(node), ME)
    assert lock is not None
    zk_session.commit([Delete(lock.contender, 0)])
    view = fresh(cache, zk_session).view()
    assert (view.nodes[node].locked, view.nodes[node].ours) == (False, False)


def test_pools_of_launchers_are_shown_and_a_launcher_of_ours_is_native(
    zk_session: Session, kazoo: KazooClient, cache: PoolCache
) -> None:
    theirs = {
        "hostname": "h",
        "state": "running",
        "kind": "pool",
        "version": None,
        "model_api": 1,
        "id": "h-1",
        "name": "main",
        "provider_name": "p",
        "supported_labels": ["a"],
        "priority": 100,
        "paused": False,
    }
    kazoo.create(paths.components("pool") + "/h", json.dumps(theirs).encode(), ephemeral=True, sequence=True)
    zk_session.commit(
        [Create(f"{paths.components('pool')}/g0000000009", PoolComponent(hostname="g", id="g-main"), ephemeral=True)]
    )
    assert [member.native for member in fresh(cache, zk_session).view().members] == [False, False]
    mine = Daemon(host="g", pid=1, version="1", started=0.0)
    zk_session.commit([Create(paths.daemon("launcher", "g"), mine, ephemeral=True)])
    members = fresh(cache, zk_session).view().members
    assert [(each.record.id, each.native) for each in members] == [("g-main", True), ("h-1", False)]
    assert members[0].session == zk_session.id
    zk_session.commit([Delete(f"{paths.components('pool')}/g0000000009", 0)])
    assert [each.record.id for each in fresh(cache, zk_session).view().members] == ["h-1"]


# -- broken connections --


def test_after_a_reconnect_changes_of_the_meantime_are_shown(
    breakable: Server, proxy: Proxy, connect: Connect, until: Until
) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    cache = PoolCache(session, HeldLocks(session), lambda: None)
    cache.load()
    gone, changed = add_request(other), add_request(other)
    session.sync()
    cache.refresh()
    proxy.cut()
    until(lambda: not session.connected)
    other.commit([Delete(paths.request(gone), 0)])
    other.commit([Set(paths.request(changed), NodeRequest(state=RequestState.PENDING, state_time=2.0), 0)])
    node = add_node(other)
    HeldLocks(other).take(paths.pool_node_lock(node), ME)
    proxy.heal()
    until(lambda: session.connected)
    until(lambda: session.trusted)
    assert cache.refresh()
    view = cache.view()
    assert [(each.id, each.record.state) for each in view.requests.values()] == [(changed, RequestState.PENDING)]
    assert view.nodes[node].locked


def test_after_a_lost_session_no_lock_is_ours(breakable: Server, proxy: Proxy, connect: Connect, until: Until) -> None:
    session, other = connect(proxy, 1.0), connect(breakable)
    held = HeldLocks(session)
    cache = PoolCache(session, held, lambda: None)
    cache.load()
    node = add_node(session)
    lock = held.take(paths.pool_node_lock(node), ME)
    assert lock is not None
    before = session.id
    session.sync()
    cache.refresh()
    assert cache.view().nodes[node].ours
    proxy.cut()
    until(lambda: not other.children(paths.pool_node_lock(node)))
    proxy.heal()
    until(lambda: session.id not in (0, before) and session.trusted)
    assert not held.all()
    cache.load()
    assert not cache.view().nodes[node].ours
    assert not cache.view().nodes[node].locked
    held.sweep()
    assert held.take(paths.pool_node_lock(node), ME)
