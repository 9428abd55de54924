"""The tables of requests and of nodes: the events of launchers, requesters and people, and those that are refused."""

from __future__ import annotations

import pytest

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.pool import PoolNode, PoolNodeState, RequestState
from nodepool_ocb.pool.states import (
    PoolNodeEvent,
    RequestEvent,
    new_pool_node,
    new_request,
    pool_node_after,
    pool_node_in,
    request_after,
)


def node(state: PoolNodeState) -> PoolNode:
    return PoolNode(state=state, state_time=1.0)


def test_a_request_is_claimed_taken_over_and_fulfilled() -> None:
    record = new_request(1.0, node_types=("small",))
    assert record.state is RequestState.REQUESTED
    for at, event, state in (
        (2.0, RequestEvent.CLAIM, "pending"),
        (3.0, RequestEvent.CLAIM, "pending"),
        (4.0, RequestEvent.FULFIL, "fulfilled"),
    ):
        record = request_after(record, event, at)
        assert (record.state, record.state_time) == (state, at)


def test_a_declined_request_waits_again_until_it_fails() -> None:
    record = request_after(new_request(1.0), RequestEvent.RETURN, 2.0, declined_by=("a",))
    assert (record.state, record.declined_by) == (RequestState.REQUESTED, ("a",))
    assert request_after(record, RequestEvent.FAIL, 3.0, reason="no pool").state is RequestState.FAILED


def test_a_new_priority_changes_no_time() -> None:
    record = request_after(new_request(1.0), RequestEvent.REVISE, 9.0, relative_priority=3)
    assert (record.state_time, record.relative_priority) == (1.0, 3)


@pytest.mark.parametrize("event", [RequestEvent.CLAIM, RequestEvent.RETURN, RequestEvent.FAIL])
def test_a_fulfilled_request_is_no_launchers_any_more(event: RequestEvent) -> None:
    record = request_after(request_after(new_request(1.0), RequestEvent.CLAIM, 1.0), RequestEvent.FULFIL, 1.0)
    with pytest.raises(Conflict):
        request_after(record, event, 2.0)


def test_a_launch_ends_ready_or_failed_or_kept() -> None:
    testing = pool_node_after(
        pool_node_after(new_pool_node(1.0), PoolNodeEvent.NAME, 2.0), PoolNodeEvent.TEST, 3.0, host_keys=("k",)
    )
    ends = {
        PoolNodeEvent.READY: "ready",
        PoolNodeEvent.FAIL: "failed",
        PoolNodeEvent.ABORT: "aborted",
        PoolNodeEvent.KEEP: "hold",
    }
    for event, state in ends.items():
        assert pool_node_after(testing, event, 4.0).state == state


def test_an_allocation_keeps_the_age_of_a_ready_node() -> None:
    ready = node(PoolNodeState.READY)
    given = pool_node_after(ready, PoolNodeEvent.ALLOCATE, 9.0, allocated_to="100-0000000001")
    assert (given.state_time, given.allocated_to) == (1.0, "100-0000000001")
    assert pool_node_after(given, PoolNodeEvent.FREE, 9.0, allocated_to=None) == ready


@pytest.mark.parametrize("state", sorted(set(PoolNodeState) - {PoolNodeState.READY}))
def test_only_a_ready_node_is_allocated(state: PoolNodeState) -> None:
    with pytest.raises(Conflict):
        pool_node_after(node(state), PoolNodeEvent.ALLOCATE, 2.0)


@pytest.mark.parametrize("state", PoolNodeState)
def test_every_node_can_be_deleted_and_none_comes_back_from_it(state: PoolNodeState) -> None:
    assert pool_node_after(node(state), PoolNodeEvent.DELETE, 2.0).state is PoolNodeState.DELETING
    if state not in (PoolNodeState.DELETING, PoolNodeState.DELETED):
        with pytest.raises(Conflict):
            pool_node_in(node(PoolNodeState.DELETING), state, 2.0)


def test_a_used_node_is_not_used_again() -> None:
    with pytest.raises(Conflict):
        pool_node_in(node(PoolNodeState.USED), PoolNodeState.IN_USE, 2.0)
