"""The place of a node with an unreadable record: from its sound keys, or from the record that was read before."""

from __future__ import annotations

import json

from kazoo.client import KazooClient

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool.cache import PoolCache
from tests.store.pool.test_pool_cache import add_node, fresh


def test_a_newer_schema_shows_its_place(zk_session: Session, kazoo: KazooClient) -> None:
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    keys = {"schema": 9, "state": "thawing", "provider": "north", "pool": "main", "type": ["a"], "slot": "none"}
    id = kazoo.create(f"{paths.POOL_NODES}/", json.dumps(keys).encode(), sequence=True).rpartition("/")[2]
    kazoo.create(f"{paths.pool_node_lock(id)}/x__lock__", b"", sequence=True, makepath=True, ephemeral=True)
    found = fresh(cache, zk_session).view().unreadable[id]
    record = found.record
    assert (record.provider, record.pool, record.type, record.slot) == ("north", "main", ("a",), None)
    assert (record.state, found.locked) == (PoolNodeState.HOLD, True)


def test_garbage_has_the_place_of_the_record_before_it_until_it_is_mended_or_gone(
    zk_session: Session, kazoo: KazooClient
) -> None:
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    id = add_node(zk_session, provider="north", pool="main", allocated_to="100-0000000001", slot=2)
    path = paths.pool_node(id)
    assert not fresh(cache, zk_session).view().unreadable
    sound = kazoo.get(path)[0]
    for garbage in (b"\xff", b"[]"):
        kazoo.set(path, garbage)
        record = fresh(cache, zk_session).view().unreadable[id].record
        assert (record.provider, record.type, record.slot, record.allocated_to) == ("north", ("a",), 2, None)
        cache.sweep()
        assert cache.view().unreadable[id].record == record
    kazoo.set(path, sound)
    view = fresh(cache, zk_session).view()
    assert (list(view.nodes), dict(view.unreadable)) == ([id], {})
    kazoo.set(path, b"\xff")
    assert fresh(cache, zk_session).view().unreadable
    kazoo.delete(path, recursive=True)
    assert not fresh(cache, zk_session).view().unreadable


def test_garbage_that_was_never_readable_has_no_place(zk_session: Session, kazoo: KazooClient) -> None:
    zk_session.ensure(paths.POOL_NODES)
    id = kazoo.create(f"{paths.POOL_NODES}/", b"\x00", sequence=True).rpartition("/")[2]
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    record = cache.view().unreadable[id].record
    assert (record.provider, record.type) == (None, ())
