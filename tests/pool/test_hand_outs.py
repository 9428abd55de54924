"""A claim names the ready nodes that serve the whole request: they are handed out with it, in one transaction."""

from __future__ import annotations

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.instructions import ClaimRequest
from nodepool_ocb.pool.views import PoolNodeView, RequestView
from tests.pool.poolworld import configuration, decided, label, node, pool, request

CLOUD = configuration(pool("main", "small", label("big", cores=8.0)))


def named(*each: RequestView | PoolNodeView) -> list[list[str]]:
    """The nodes of each claim."""
    steps = decided(CLOUD, *each).steps
    return [[id.lstrip("0") for id, _ in step.nodes] for step in steps if isinstance(step, ClaimRequest)]


def test_a_claim_names_the_ready_nodes_in_the_order_of_the_labels() -> None:
    assert named(request("1", "big", "small"), node("5", "small"), node("6", "big")) == [["6", "5"]]


def test_no_two_claims_name_one_node() -> None:
    requests = [request(each, "small") for each in "123"]
    assert named(*requests, node("5", "small"), node("6", "small")) == [["5"], ["6"], []]


def test_a_claim_names_no_node_if_another_one_must_be_launched() -> None:
    assert named(request("1", "big", "small"), node("5", "small")) == [[]]


def test_a_claim_names_no_ready_node_without_reuse() -> None:
    assert named(request("1", "small", reuse=False), node("5", "small")) == [[]]


def test_a_request_that_a_dead_launcher_began_is_claimed_first() -> None:
    assert named(request("1", "small", state=RequestState.PENDING), node("5", "small")) == [[]]


def test_a_request_with_a_failed_launch_is_claimed_first() -> None:
    failed = node("4", "small", state=PoolNodeState.ABORTED, allocated_to="100-0000000001")
    assert named(request("1", "small"), failed, node("5", "small")) == [[]]
