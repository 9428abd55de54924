"""The life of a request and of its nodes, one decision after the other."""

from __future__ import annotations

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.configuration import PoolLabelPolicy, StaticMachine
from tests.pool.poolworld import configuration, held, label, machines, node, pool, request, steps

MAIN = pool("main", "small", label("big", cores=8.0), limits={"instances": 3})
CLOUD = configuration(MAIN)
R1 = "100-0000000001"
PENDING = RequestState.PENDING


def test_a_request_with_room_is_claimed_then_its_nodes_are_launched() -> None:
    assert steps(CLOUD, request("1", "small", "big")) == ["claim 1"]
    assert steps(CLOUD, held("1", "small", "big")) == ["launch cloud/main small for 1", "launch cloud/main big for 1"]


def test_ready_nodes_are_allocated_and_the_rest_is_launched() -> None:
    assert steps(CLOUD, held("1", "small", "big"), node("5", "big")) == [
        "allocate 5 to 1",
        "launch cloud/main small for 1",
    ]


def test_no_ready_node_is_allocated_without_reuse() -> None:
    assert steps(CLOUD, held("1", "small", reuse=False), node("5", "small")) == ["launch cloud/main small for 1"]


def test_a_request_is_fulfilled_in_the_order_of_its_labels() -> None:
    big, small = (
        node("5", "small", allocated_to=R1),
        node("6", "big", allocated_to=R1),
    )
    assert steps(CLOUD, held("1", "big", "small"), big, small) == ["fulfil 1 with 6,5"]


def test_a_request_is_fulfilled_only_after_the_worker_frees_the_locks() -> None:
    assert steps(CLOUD, held("1", "small"), node("5", "small", allocated_to=R1, locked=True)) == []


def test_a_request_without_labels_is_fulfilled() -> None:
    assert steps(CLOUD, held("1")) == ["fulfil 1 with "]


def test_an_unfinished_launch_is_not_launched_again() -> None:
    building = node("5", "small", allocated_to=R1, state=PoolNodeState.BUILDING, locked=True)
    assert steps(CLOUD, held("1", "small"), building) == []


def test_a_surplus_node_is_free_again() -> None:
    nodes = [node(each, "small", allocated_to=R1) for each in "56"]
    assert steps(CLOUD, held("1", "small"), *nodes) == ["free 6", "fulfil 1 with 5"]


def test_min_ready_is_launched() -> None:
    kept = configuration(MAIN, labels=[PoolLabelPolicy(name="small", min_ready=2)])
    assert steps(kept, node("5", "small")) == ["launch cloud/main small"]


def test_each_slot_of_a_machine_gets_a_record() -> None:
    lab = configuration(machines("lab", StaticMachine(name="a", labels=("x", "y"), slots=2)))
    assert steps(lab) == ["launch static/lab x on a/0", "launch static/lab x on a/1"]


def test_a_ready_node_is_handed_out_before_an_unfinished_one_is_awaited() -> None:
    building = node("4", "small", allocated_to=R1, state=PoolNodeState.BUILDING, locked=True)
    assert steps(CLOUD, held("1", "small"), building, node("5", "small", allocated_to=R1)) == ["fulfil 1 with 5"]


def test_the_room_of_another_launchers_request_is_not_taken() -> None:
    theirs = request("1", "small", "small", state=PENDING, locked_by="host2")
    assert steps(CLOUD, theirs, held("2", "small", "small")) == []
    assert steps(CLOUD, theirs, held("2", "small")) == ["launch cloud/main small for 2"]


def test_a_request_with_all_its_nodes_takes_no_further_room() -> None:
    nodes = [node(each, "small", allocated_to=R1, state=PoolNodeState.BUILDING, locked=True) for each in "56"]
    theirs = request("1", "small", "small", state=PENDING, locked_by="host2")
    assert steps(CLOUD, theirs, held("2", "small"), *nodes) == ["launch cloud/main small for 2"]
