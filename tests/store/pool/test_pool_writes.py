"""Each step of a launcher is one transaction with the versions that it was decided from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock as KazooLock

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale, TooLarge
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Delete, LockOwner, Set
from nodepool_ocb.pool.capacity.judging import MOST_NODES
from nodepool_ocb.pool.states import new_pool_node
from nodepool_ocb.pool.views import PoolNodeView, PoolView, RequestView
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks, contenders
from nodepool_ocb.store.pool.cache import PoolCache
from nodepool_ocb.store.pool.nodes import NodeWriter, RenewedSlot
from nodepool_ocb.store.pool.requests import RequestWriter
from tests.store.pool.test_pool_cache import add_node, add_request


class Launcher:
    """A launcher's hold on ZooKeeper."""

    def __init__(self, session: Session, name: str = "l1") -> None:
        self.session = session
        self.held = HeldLocks(session)
        self.cache = PoolCache(session, self.held, lambda: None)
        self.requests = RequestWriter(session, self.held, self.owner)
        self.nodes = NodeWriter(session, self.held, self.owner)
        self._name = name
        self.cache.load()
        session.now()  # the first call writes the clock

    def owner(self, purpose: str) -> LockOwner:
        return LockOwner(daemon=self._name, host="h", pid=1, purpose=purpose, since=1.0)

    def look(self) -> PoolView:
        self.session.sync()
        self.cache.refresh()
        return self.cache.view()

    def request(self, id: str) -> RequestView:
        return self.look().requests[id]

    def node(self, id: str) -> PoolNodeView:
        return self.look().nodes[id]


@pytest.fixture
def launcher(zk_session: Session) -> Launcher:
    return Launcher(zk_session)


@pytest.fixture
def rival(zk_session: Session, zk_settings: ZooKeeperSettings) -> Iterator[Launcher]:
    assert zk_session.connected
    with Session(zk_settings) as session:
        yield Launcher(session, "l2")


def test_a_claim_takes_the_lock_and_sets_the_request_pending_in_one_transaction(launcher: Launcher) -> None:
    request = add_request(launcher.session)
    before = launcher.request(request)
    zxid = launcher.session.last_zxid
    assert launcher.requests.claim(before)
    assert launcher.session.last_zxid == zxid + 1
    after = launcher.request(request)
    assert (after.record.state, after.ours, after.locked_by) == (RequestState.PENDING, True, "l1")
    assert after.record.state_time > 1.0


def test_ready_nodes_are_handed_out_in_one_transaction_that_leaves_no_lock(launcher: Launcher) -> None:
    request, nodes = add_request(launcher.session), [add_node(launcher.session) for _ in range(2)]
    found = [launcher.node(id) for id in reversed(nodes)]
    before, zxid = launcher.request(request), launcher.session.last_zxid
    assert launcher.requests.hand_out(before, found)
    assert launcher.session.last_zxid == zxid + 1
    after = launcher.request(request)
    assert (after.record.state, after.record.nodes) == (RequestState.FULFILLED, tuple(reversed(nodes)))
    assert {launcher.node(id).record.allocated_to for id in nodes} == {request}
    assert launcher.session.children(paths.REQUEST_LOCKS) == []


def test_no_node_is_handed_out_while_a_client_has_the_lock_of_the_request(
    launcher: Launcher, kazoo: KazooClient
) -> None:
    request, node = add_request(launcher.session), add_node(launcher.session)
    with KazooLock(kazoo, paths.request_lock(request)):
        assert not launcher.requests.hand_out(launcher.request(request), [launcher.node(node)])
    assert launcher.request(request).record.state is RequestState.REQUESTED
    assert launcher.node(node).record.allocated_to is None


def test_of_two_launchers_that_hand_out_one_node_one_is_refused(launcher: Launcher, rival: Launcher) -> None:
    first, second, node = add_request(launcher.session), add_request(launcher.session), add_node(launcher.session)
    seen = rival.request(second), rival.node(node)
    assert launcher.requests.hand_out(launcher.request(first), [launcher.node(node)])
    with pytest.raises(Stale):
        rival.requests.hand_out(seen[0], [seen[1]])
    assert rival.request(second).record.state is RequestState.REQUESTED
    assert rival.node(node).record.allocated_to == first


def test_a_request_that_was_revised_meanwhile_gets_no_node(launcher: Launcher) -> None:
    request, node = add_request(launcher.session), add_node(launcher.session)
    seen = launcher.request(request)
    launcher.session.commit([Set(paths.request(request), seen.record, 0)])
    with pytest.raises(Stale):
        launcher.requests.hand_out(seen, [launcher.node(node)])
    assert launcher.node(node).record.allocated_to is None


def test_nodes_that_are_too_many_for_one_transaction_are_not_handed_out_in_one(launcher: Launcher) -> None:
    request, node = add_request(launcher.session), add_node(launcher.session)
    assert not launcher.requests.hand_out(launcher.request(request), [launcher.node(node)] * MOST_NODES)
    assert launcher.request(request).record.state is RequestState.REQUESTED


def test_a_returned_node_without_a_holder_is_dropped_in_one_transaction(launcher: Launcher) -> None:
    node = add_node(launcher.session, PoolNodeState.USED)
    launcher.session.ensure(paths.pool_node_lock(node))
    seen, zxid = launcher.node(node), launcher.session.last_zxid
    assert launcher.nodes.drop(seen)
    assert launcher.session.last_zxid == zxid + 1
    assert launcher.session.children(paths.POOL_NODES) == []


def test_no_node_is_dropped_under_a_client_that_holds_its_lock(launcher: Launcher, kazoo: KazooClient) -> None:
    node = add_node(launcher.session, PoolNodeState.USED)
    seen = launcher.node(node)
    with KazooLock(kazoo, paths.pool_node_lock(node)):
        assert not launcher.nodes.drop(seen)
    assert launcher.node(node).record.state is PoolNodeState.USED


def test_no_node_is_dropped_that_changed_meanwhile(launcher: Launcher) -> None:
    node = add_node(launcher.session, PoolNodeState.USED)
    launcher.session.ensure(paths.pool_node_lock(node))
    seen = launcher.node(node)
    launcher.session.commit([Set(paths.pool_node(node), seen.record, 0)])
    assert not launcher.nodes.drop(seen)
    assert launcher.node(node).version == 1


def returned(launcher: Launcher, **fields: Any) -> RenewedSlot:
    """A returned node, and the record that follows it."""
    node = add_node(launcher.session, PoolNodeState.USED, allocated_to="100-0000000000", **fields)
    launcher.session.ensure(paths.pool_node_lock(node))
    heir = new_pool_node(2.0, type=("a",), slot=int(node), **fields)
    return RenewedSlot(launcher.node(node), heir)


def test_returned_slots_get_ready_nodes_with_new_ids_in_one_transaction(launcher: Launcher) -> None:
    slots = [returned(launcher) for _ in range(3)]
    zxid = launcher.session.last_zxid
    launcher.nodes.renew(slots)
    assert launcher.session.last_zxid == zxid + 1
    view = launcher.look()
    assert not {each.node.id for each in slots} & view.nodes.keys()
    assert all(each.free and each.record.allocated_to is None for each in view.nodes.values())
    assert [each.record.slot for each in view.nodes.values()] == [each.heir.slot for each in slots]


def test_of_two_launchers_that_renew_a_slot_one_makes_its_node(launcher: Launcher, rival: Launcher) -> None:
    slot = returned(launcher)
    launcher.nodes.renew([slot])
    with pytest.raises(Stale):
        rival.nodes.renew([slot])
    assert len(rival.look().nodes) == 1


def test_no_slot_is_renewed_if_one_node_changed_or_is_locked(launcher: Launcher, kazoo: KazooClient) -> None:
    slots = [returned(launcher) for _ in range(2)]
    ids = {each.node.id for each in slots}
    with KazooLock(kazoo, paths.pool_node_lock(slots[1].node.id)), pytest.raises(Stale):
        launcher.nodes.renew(slots)
    launcher.session.commit([Set(paths.pool_node(slots[0].node.id), slots[0].node.record, 0)])
    with pytest.raises(Stale):
        launcher.nodes.renew(slots)
    assert launcher.look().nodes.keys() == ids


def test_the_records_of_renewed_slots_count_for_the_size_of_a_transaction(launcher: Launcher) -> None:
    slots = [returned(launcher, comment="x" * 200_000) for _ in range(3)]
    with pytest.raises(TooLarge):
        launcher.nodes.renew(slots)
    launcher.nodes.renew(slots[:1])
    assert launcher.session.connected


def test_one_of_two_launchers_claims_a_request(launcher: Launcher, rival: Launcher) -> None:
    request = add_request(launcher.session)
    seen = launcher.request(request), rival.request(request)
    assert launcher.requests.claim(seen[0])
    assert not rival.requests.claim(seen[1])
    assert not rival.request(request).ours
    assert not rival.held.all()


def test_a_claim_of_a_request_that_changed_leaves_no_lock(launcher: Launcher) -> None:
    for lock_exists in (False, True):
        request = add_request(launcher.session)
        if lock_exists:
            launcher.session.ensure(paths.request_lock(request))
        seen = launcher.request(request)
        launcher.session.commit([Set(paths.request(request), seen.record, 0)])
        with pytest.raises(Stale):
            launcher.requests.claim(seen)
        assert not launcher.session.children(paths.request_lock(request))
        assert not launcher.held.all()


def test_a_kazoo_client_waits_for_the_lock_of_a_claim(launcher: Launcher, kazoo: KazooClient) -> None:
    request = add_request(launcher.session)
    launcher.requests.claim(launcher.request(request))
    theirs = KazooLock(kazoo, paths.request_lock(request))
    assert not theirs.acquire(blocking=False)
    launcher.requests.release(request)
    assert theirs.acquire(blocking=False)
    assert not launcher.requests.claim(launcher.request(request))
    theirs.release()
    assert launcher.requests.claim(launcher.request(request))


def test_a_pending_request_with_a_free_lock_is_taken_over_as_it_is(launcher: Launcher, rival: Launcher) -> None:
    request = add_request(launcher.session)
    assert rival.requests.claim(rival.request(request))
    pending = rival.request(request)
    rival.requests.release(request)
    assert launcher.requests.claim(launcher.request(request))
    after = launcher.request(request)
    assert (after.ours, after.version, after.record) == (True, pending.version, pending.record)


def served(launcher: Launcher, *nodes: str, labels: tuple[str, ...] = ("a",)) -> tuple[RequestView, list[PoolNodeView]]:
    """A request that we hold, and nodes that are allocated to it."""
    request = add_request(launcher.session, node_types=labels, tenant_name="t", requestor="zuul")
    launcher.requests.claim(launcher.request(request))
    launcher.requests.allocate(launcher.request(request), [launcher.node(each) for each in nodes])
    return launcher.request(request), [launcher.node(each) for each in nodes]


def test_nodes_are_allocated_together_and_handed_out_in_order(launcher: Launcher) -> None:
    first, second = add_node(launcher.session), add_node(launcher.session)
    request, nodes = served(launcher, second, first, labels=("a", "a"))
    assert [node.record.allocated_to for node in nodes] == [request.id] * 2
    assert (nodes[0].record.tenant_name, nodes[0].record.requestor) == ("t", "zuul")
    zxid = launcher.session.last_zxid
    launcher.requests.fulfil(request, nodes)
    assert launcher.session.last_zxid == zxid + 1
    after = launcher.request(request.id)
    assert (after.record.state, after.record.nodes, after.locked_by) == (RequestState.FULFILLED, (second, first), None)
    assert not launcher.held.all()


def test_the_largest_request_is_allocated_and_handed_out(launcher: Launcher) -> None:
    keys = tuple(f"ssh-rsa {number}{'A' * 700}" for number in range(3))
    ids = [add_node(launcher.session, host_keys=keys) for _ in range(MOST_NODES)]
    request = add_request(launcher.session, node_types=("a",) * MOST_NODES)
    launcher.requests.claim(launcher.request(request))
    launcher.requests.allocate(launcher.request(request), [launcher.look().nodes[each] for each in ids])
    view = launcher.look()
    launcher.requests.fulfil(view.requests[request], [view.nodes[each] for each in ids])
    assert launcher.request(request).record.nodes == tuple(ids)


def test_no_node_is_allocated_if_one_of_them_changed(launcher: Launcher) -> None:
    first, second = add_node(launcher.session), add_node(launcher.session)
    request = add_request(launcher.session)
    launcher.requests.claim(launcher.request(request))
    seen = launcher.request(request), [launcher.node(first), launcher.node(second)]
    launcher.session.commit([Set(paths.pool_node(second), seen[1][1].record, 0)])
    with pytest.raises(Stale):
        launcher.requests.allocate(*seen)
    assert launcher.node(first).record.allocated_to is None


def test_a_node_is_allocated_once_even_if_launchers_race(launcher: Launcher, rival: Launcher) -> None:
    node = add_node(launcher.session)
    wants = []
    for each in (launcher, rival):
        request = add_request(each.session)
        each.requests.claim(each.request(request))
        wants.append((each, each.request(request), each.node(node)))
    wants[0][0].requests.allocate(wants[0][1], [wants[0][2]])
    with pytest.raises(Stale):
        wants[1][0].requests.allocate(wants[1][1], [wants[1][2]])


def test_a_request_is_not_fulfilled_with_a_node_that_changed(launcher: Launcher) -> None:
    request, nodes = served(launcher, add_node(launcher.session))
    launcher.session.commit([Set(paths.pool_node(nodes[0].id), nodes[0].record, nodes[0].version)])
    with pytest.raises(Stale):
        launcher.requests.fulfil(request, nodes)
    assert launcher.request(request.id).record.state is RequestState.PENDING
    assert launcher.request(request.id).ours


@pytest.mark.parametrize("step", ["allocate", "fulfil", "decline"])
def test_a_launcher_that_lost_its_lock_writes_nothing(launcher: Launcher, step: str) -> None:
    request, nodes = served(launcher, add_node(launcher.session))
    free = launcher.node(add_node(launcher.session))
    lock = launcher.held.get(paths.request_lock(request.id))
    assert lock is not None
    launcher.session.commit([Delete(lock.contender, 0)])  # by another client, as nodepool's command line does
    steps = {
        "allocate": lambda: launcher.requests.allocate(request, [free]),
        "fulfil": lambda: launcher.requests.fulfil(request, nodes),
        "decline": lambda: launcher.requests.decline(request, ["p"], "no room"),
    }
    with pytest.raises(Stale):
        steps[step]()
    assert launcher.request(request.id).record == request.record
    assert launcher.node(free.id).record.allocated_to is None


def test_a_request_is_declined_and_fails_when_no_pool_is_left(launcher: Launcher) -> None:
    request, _ = served(launcher)
    launcher.requests.decline(request, ["p1"], "no such label")
    after = launcher.request(request.id)
    assert (after.record.state, after.record.declined_by, after.locked_by) == (RequestState.REQUESTED, ("p1",), None)
    launcher.requests.claim(after)
    launcher.requests.fail(launcher.request(request.id), ["p1", "p2"], "at its limit")
    after = launcher.request(request.id)
    assert (after.record.state, after.record.declined_by) == (RequestState.FAILED, ("p1", "p2"))
    assert after.record.reason == "at its limit"


@pytest.mark.parametrize("ours", [True, False])
def test_a_request_is_deleted_with_its_lock(launcher: Launcher, ours: bool) -> None:
    request, _ = served(launcher)
    if not ours:
        launcher.requests.release(request.id)
    launcher.requests.delete(launcher.request(request.id))
    assert not launcher.look().requests
    assert launcher.session.get(paths.request_lock(request.id)) is None
    assert not launcher.held.all()


def test_locks_of_requests_that_are_gone_are_deleted_unless_they_are_held(launcher: Launcher, rival: Launcher) -> None:
    gone, held = served(launcher)[0], served(rival)[0]
    launcher.requests.release(gone.id)
    launcher.session.commit([Delete(paths.request(each.id), each.version) for each in (gone, held)])
    launcher.look()
    assert launcher.cache.strays == {gone.id, held.id}
    launcher.requests.sweep(launcher.cache.strays)
    launcher.look()
    assert launcher.cache.strays == {held.id}


# -- nodes --


def test_a_new_node_is_in_init_and_its_launcher_holds_the_lock(launcher: Launcher) -> None:
    made = launcher.nodes.create("launch", type=("a",), provider="p", pool="main", allocated_to="100-0000000001")
    assert made is not None
    found = launcher.node(made.id)
    assert (found.record.state, found.ours, found.labels) == (PoolNodeState.INIT, True, ("a",))
    assert found.record.created_time == found.record.state_time > 0


def test_the_writes_of_a_launch_follow_each_other(launcher: Launcher) -> None:
    made = launcher.nodes.create("launch", type=("a",))
    assert made is not None
    made.enter(PoolNodeState.BUILDING, hostname="n1", driver_data={"key": "5f", "attempt": 1})
    made.note(external_id="i-1")
    made.note(interface_ip="192.0.2.1")
    assert launcher.node(made.id).record == made.record
    made.finish(PoolNodeState.READY)
    found = launcher.node(made.id)
    assert (found.record.state, found.record.external_id, found.free) == (PoolNodeState.READY, "i-1", True)
    assert found.version == made.version
    assert not made.held


def test_a_worker_that_lost_the_lock_writes_nothing(launcher: Launcher) -> None:
    made = launcher.nodes.create("launch", type=("a",))
    assert made is not None
    lock = launcher.held.get(paths.pool_node_lock(made.id))
    assert lock is not None
    launcher.session.commit([Delete(lock.contender, 0)])
    for write in (lambda: made.note(comment="x"), lambda: made.finish(PoolNodeState.READY)):
        with pytest.raises(Stale):
            write()
    assert launcher.node(made.id).version == 0


def test_a_node_of_a_dead_launcher_is_taken_over(launcher: Launcher, rival: Launcher) -> None:
    made = rival.nodes.create("launch", type=("a",))
    assert made is not None
    made.enter(PoolNodeState.BUILDING, hostname="n1")
    assert launcher.nodes.hold(made.id, "adopt") is None
    rival.session.close()
    taken = launcher.nodes.hold(made.id, "adopt")
    assert taken is not None
    assert (taken.record, taken.version) == (made.record, 1)
    taken.note(external_id="i-1")
    assert launcher.node(made.id).ours


def test_a_node_that_is_gone_is_not_held_and_does_not_come_back(launcher: Launcher) -> None:
    assert launcher.nodes.hold("0000000077", "adopt") is None
    assert launcher.session.get(paths.pool_node("0000000077")) is None


def test_a_node_is_deleted_with_its_lock_and_those_that_wait_for_it(launcher: Launcher, kazoo: KazooClient) -> None:
    made = launcher.nodes.create("launch", type=("a",))
    assert made is not None
    folder = paths.pool_node_lock(made.id)
    kazoo.create(f"{folder}/{'f' * 32}__lock__", ephemeral=True, sequence=True)
    assert len(contenders(kazoo.get_children(folder))) == 2
    made.delete()
    assert not launcher.look().nodes
    assert not launcher.held.all()


def test_a_node_that_another_client_wrote_is_not_deleted(launcher: Launcher) -> None:
    made = launcher.nodes.create("launch", type=("a",))
    assert made is not None
    launcher.session.commit([Set(paths.pool_node(made.id), made.record, 0)])
    with pytest.raises(Stale):
        made.delete()
    assert made.id in launcher.look().nodes
    assert made.read()
    made.delete()
    assert not made.read()


def test_an_allocated_node_is_free_again(launcher: Launcher) -> None:
    _, (node,) = served(launcher, add_node(launcher.session))
    launcher.nodes.free(node)
    found = launcher.node(node.id)
    assert (found.free, found.record.allocated_to, found.record.tenant_name) == (True, None, None)
    with pytest.raises(Stale):
        launcher.nodes.free(node)


def test_znodes_without_data_are_no_nodes_and_can_be_deleted(launcher: Launcher, kazoo: KazooClient) -> None:
    """A lock of kazoo makes them, if the node is deleted while the client waits."""
    kazoo.ensure_path(paths.pool_node_lock("0000000007"))
    node = add_node(launcher.session)
    assert list(launcher.look().nodes) == [node]
    assert list(launcher.cache.nodes.empty) == ["0000000007"]
    assert not launcher.cache.quarantined
    launcher.nodes.delete_empty("0000000007")
    launcher.nodes.delete_empty(node)
    assert list(launcher.look().nodes) == [node]
    assert not launcher.cache.nodes.empty
    assert launcher.session.get(paths.pool_node("0000000007")) is None
