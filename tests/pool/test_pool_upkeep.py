"""The steps for nodes without a holder."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.configuration import PoolLabelPolicy, StaticMachine
from nodepool_ocb.pool.views import ReadyImage
from tests.pool.poolworld import (
    NOW,
    configuration,
    decided,
    held,
    label,
    machines,
    member,
    node,
    pool,
    request,
    steps,
    text,
)

MAIN = pool("main", "small", label("imaged", image="debian"))
CLOUD = configuration(MAIN)
R1 = "100-0000000001"
OLD = NOW - 1000.0
FACTS = {"key": "5f", "attempt": 1}


def launch(state: PoolNodeState, **fields: Any) -> Any:
    return node("5", "small", **{"state": state, "state_time": OLD, "driver_data": FACTS, **fields})


def test_a_returned_node_is_deleted() -> None:
    assert steps(CLOUD, node("5", "small", state=PoolNodeState.USED)) == ["delete 5"]


@pytest.mark.parametrize("state", sorted(set(PoolNodeState) - {PoolNodeState.READY}))
def test_a_locked_node_is_left_to_the_holder_of_its_lock(state: PoolNodeState) -> None:
    assert steps(CLOUD, node("5", "small", state=state, state_time=OLD, locked=True)) == []


@pytest.mark.parametrize("state", PoolNodeState)
def test_a_node_of_an_unknown_provider_stays(state: PoolNodeState) -> None:
    assert steps(CLOUD, node("5", "small", state=state, state_time=OLD, provider="gone", driver_data=FACTS)) == []


def test_a_node_in_use_without_a_lock_is_deleted_after_a_grace() -> None:
    found = decided(CLOUD, node("5", "small", state=PoolNodeState.IN_USE, state_time=NOW - 4))
    assert (found.steps, found.seconds) == ((), 6.0)
    assert steps(CLOUD, node("5", "small", state=PoolNodeState.IN_USE, state_time=NOW - 10)) == ["delete 5"]


def test_a_deletion_without_a_worker_is_continued_unless_the_provider_fails() -> None:
    going = node("5", "small", state=PoolNodeState.DELETING)
    assert steps(CLOUD, going) == ["adopt 5"]
    assert steps(CLOUD, going, faults={"cloud": "no answer"}) == []


def test_the_record_of_a_deleted_machine_goes_after_a_grace_for_its_writer() -> None:
    assert steps(CLOUD, node("5", "small", state=PoolNodeState.DELETED, state_time=NOW - 9)) == []
    assert steps(CLOUD, node("5", "small", state=PoolNodeState.DELETED, state_time=NOW - 10)) == ["delete 5"]


# -- launches without a launcher --

UNFINISHED = [PoolNodeState.INIT, PoolNodeState.BUILDING, PoolNodeState.TESTING]


@pytest.mark.parametrize("state", UNFINISHED)
def test_a_launch_without_a_launcher_is_continued_after_a_grace(state: PoolNodeState) -> None:
    assert steps(CLOUD, launch(state)) == ["adopt 5"]
    assert steps(CLOUD, launch(state, state_time=NOW)) == []


def test_a_launch_of_nodepool_is_deleted() -> None:
    assert steps(CLOUD, launch(PoolNodeState.BUILDING, driver_data=None)) == ["delete 5"]


def test_a_launch_for_a_request_that_is_gone_is_deleted() -> None:
    assert steps(CLOUD, launch(PoolNodeState.BUILDING, allocated_to=R1)) == ["delete 5"]


def test_a_launch_of_a_label_that_is_gone_is_deleted() -> None:
    assert steps(CLOUD, node("5", "gone", state=PoolNodeState.BUILDING, state_time=OLD, driver_data=FACTS)) == [
        "delete 5"
    ]


def test_an_own_launch_ends_after_its_deadline() -> None:
    own = {"locked": True, "ours": True}
    assert steps(CLOUD, launch(PoolNodeState.BUILDING, state_time=NOW - 3600, **own)) == ["fail 5"]
    assert steps(CLOUD, launch(PoolNodeState.BUILDING, state_time=NOW - 3599, **own)) == []


def test_a_machine_with_late_roles_is_kept_on_request() -> None:
    own: dict[str, Any] = {"locked": True, "ours": True}
    kept = configuration(MAIN, labels=[PoolLabelPolicy(name="small", roles_seconds=900.0, keep_failed=True)])
    assert steps(kept, launch(PoolNodeState.TESTING, **own)) == ["fail 5 keep"]
    assert steps(kept, launch(PoolNodeState.BUILDING, state_time=NOW - 3600, **own)) == ["fail 5"]


# -- launches that ended --


def test_a_failed_launch_with_a_machine_is_adopted_so_that_the_machine_goes() -> None:
    assert steps(CLOUD, launch(PoolNodeState.FAILED, external_id="m1")) == ["adopt 5"]
    assert steps(CLOUD, launch(PoolNodeState.FAILED)) == ["adopt 5"]  # its stamp was drawn: a machine may exist


def test_a_failed_launch_of_nodepool_is_deleted() -> None:
    assert steps(CLOUD, launch(PoolNodeState.FAILED, driver_data=None, external_id="m1")) == ["delete 5"]


def test_a_failed_launch_for_min_ready_stays_for_the_number_of_the_next_attempt() -> None:
    bare = {"key": "", "attempt": 1}
    assert steps(CLOUD, launch(PoolNodeState.FAILED, driver_data=bare, state_time=NOW - 64)) == []
    assert steps(CLOUD, launch(PoolNodeState.FAILED, driver_data=bare, state_time=NOW - 65)) == ["delete 5"]


def test_a_failed_launch_of_a_request_that_is_gone_is_deleted() -> None:
    bare = {"key": "", "attempt": 1}
    assert steps(CLOUD, launch(PoolNodeState.FAILED, driver_data=bare, state_time=NOW, allocated_to=R1)) == ["delete 5"]


def test_a_kept_machine_stays_after_its_launch_failed() -> None:
    assert steps(CLOUD, launch(PoolNodeState.HOLD, driver_data={**FACTS, "party": "machine"})) == []


# -- ready nodes --


@pytest.mark.parametrize(
    ("request_of_it", "expected"),
    [
        (None, ["free 5"]),
        (request("1", "small", state=RequestState.FAILED), ["free 5"]),
        (request("1", "small", state=RequestState.FULFILLED, nodes=("0000000009",)), ["free 5"]),
        (request("1", "small", state=RequestState.FULFILLED, nodes=("0000000005",)), []),
        (request("1", "small", state=RequestState.PENDING, locked_by="other"), []),
    ],
    ids=["gone", "failed", "fulfilled by others", "fulfilled", "pending"],
)
def test_a_ready_node_is_free_again_if_no_request_uses_it(request_of_it: Any, expected: list[str]) -> None:
    ready = node("5", "small", allocated_to=R1)
    assert steps(CLOUD, ready, *([request_of_it] if request_of_it else [])) == expected


def test_a_ready_node_that_its_requester_locked_is_left_alone() -> None:
    assert steps(CLOUD, node("5", "small", allocated_to=R1, locked=True)) == []


def test_a_ready_node_is_deleted_at_its_max_ready_age() -> None:
    aged = configuration(MAIN, labels=[PoolLabelPolicy(name="small", max_ready_age_seconds=600.0)])
    assert steps(aged, node("5", "small", state_time=NOW - 600)) == ["delete 5"]
    found = decided(aged, node("5", "small", state_time=NOW - 599))
    assert (found.steps, found.seconds) == ((), 1.0)
    assert steps(aged, held("1", "small"), node("5", "small", state_time=NOW - 600, allocated_to=R1)) == [
        "fulfil 1 with 5"
    ]


def test_the_lowest_max_ready_age_counts() -> None:
    both = pool("main", "small", max_age_seconds=100.0)
    aged = configuration(both, labels=[PoolLabelPolicy(name="small", max_ready_age_seconds=600.0)])
    assert steps(aged, node("5", "small", state_time=NOW - 100)) == ["delete 5"]


# -- images --


def image(upload: str) -> dict[tuple[str, str], ReadyImage]:
    return {
        ("cloud", "debian"): ReadyImage(build="1", upload=upload, path=f"/images/{upload}", external_id=f"id-{upload}")
    }


def idle(id: str, upload: str = "1", **fields: Any) -> Any:
    return node(id, "imaged", image_id=f"/images/{upload}", state_time=NOW - int(id), **fields)


def test_idle_nodes_of_an_outdated_image_are_replaced_one_after_the_other() -> None:
    assert steps(CLOUD, idle("5"), idle("6"), images=image("2")) == ["delete 6"]
    assert steps(CLOUD, idle("5"), idle("6", state=PoolNodeState.DELETING, locked=True), images=image("2")) == []
    assert steps(CLOUD, idle("5"), idle("6", "2"), images=image("2")) == ["delete 5"]


@pytest.mark.parametrize("state", [PoolNodeState.FAILED, PoolNodeState.ABORTED])
def test_no_further_idle_node_is_replaced_after_its_successor_failed(state: PoolNodeState) -> None:
    failed = node("7", "imaged", state=state, reason="it does not boot", driver_data={"key": "", "party": "machine"})
    assert steps(CLOUD, idle("5"), idle("6"), failed, images=image("2")) == []


def test_an_idle_node_stays_without_a_newer_image() -> None:
    assert steps(CLOUD, idle("5"), images={}) == []
    assert steps(CLOUD, idle("5"), images=image("1")) == []
    assert steps(CLOUD, idle("5", allocated_to=R1, locked=True), images=image("2")) == []


def test_an_outdated_node_stays_until_its_max_ready_age() -> None:
    aged = configuration(MAIN, labels=[PoolLabelPolicy(name="imaged", max_ready_age_seconds=600.0)])
    assert steps(aged, idle("5"), images=image("2")) == []


# -- held nodes --


@pytest.mark.parametrize(
    ("expiration", "label_age", "age", "expected"),
    [
        (None, 0.0, 0.0, None),
        (None, 0.0, 500.0, 500.0),
        (None, 400.0, 500.0, 400.0),
        (300, 0.0, 500.0, 300.0),
        (700, 0.0, 500.0, 500.0),
        ("300", 0.0, 0.0, 300.0),
        ("soon", 0.0, 500.0, 500.0),
        (-1, 0.0, 500.0, 500.0),
        ("nan", 0.0, 500.0, 500.0),
    ],
)
def test_a_held_node_is_deleted_at_the_lowest_of_its_ages(
    expiration: Any, label_age: float, age: float, expected: float | None
) -> None:
    file = configuration(
        MAIN, labels=[PoolLabelPolicy(name="small", max_hold_age_seconds=label_age)], max_hold_age_seconds=age
    )
    kept = node("5", "small", state=PoolNodeState.HOLD, hold_expiration=expiration)
    assert decided(file, kept).seconds == expected
    if expected is not None:
        assert steps(file, kept, at=NOW + expected) == ["delete 5"]


# -- owners --


def test_one_of_several_launchers_with_the_provider_acts() -> None:
    other = pool("main", "small", provider="other")
    elsewhere = tuple(member(other, session) for session in range(2, 30))
    assert steps(CLOUD, node("5", "small", state=PoolNodeState.USED), members=(member(MAIN), *elsewhere)) == [
        "delete 5"
    ]
    rivals = tuple(member(MAIN, session) for session in range(2, 30))
    nodes = [node(str(each), "small", state=PoolNodeState.USED) for each in range(1, 300)]
    assert 1 <= len(steps(CLOUD, *nodes, members=(member(MAIN), *rivals))) < 60


@pytest.mark.parametrize(
    "fields",
    [
        {"state": PoolNodeState.DELETING},
        {"state": PoolNodeState.BUILDING},
        {"state": PoolNodeState.FAILED, "external_id": "m1"},
        {"state": PoolNodeState.READY, "allocated_to": R1},
    ],
    ids=str,
)
def test_one_of_several_launchers_continues_or_frees_a_node(fields: dict[str, Any]) -> None:
    everyone = (member(MAIN), *(member(MAIN, session) for session in range(2, 30)))
    nodes = [node(str(each), "small", state_time=OLD, driver_data=FACTS, **fields) for each in range(1, 300)]
    assert 1 <= len(steps(CLOUD, *nodes, members=everyone)) < 60


def test_a_ready_node_with_a_lock_is_not_allocated() -> None:
    assert steps(CLOUD, held("1", "small"), node("5", "small", locked=True)) == ["launch cloud/main small for 1"]


def test_a_launcher_that_is_paused_leaves_nodes_to_others() -> None:
    assert steps(CLOUD, node("5", "small", state=PoolNodeState.USED), members=(member(MAIN, paused=True),)) == []


# -- machines --

BOX = machines("lab", StaticMachine(name="box", labels=("x",), slots=2, username="zuul"), provider="cloud")
LAB = configuration(BOX)


def slot(id: str, *labels: str, **fields: Any) -> Any:
    login = {"username": "zuul", "connection_port": 22, "connection_type": "ssh", "python_path": "auto"}
    found = {"hostname": "box", "slot": int(id) - 5, **login, **fields}
    return node(id, *(labels or ("x",)), place=BOX, **found)


def test_an_idle_slot_that_agrees_with_the_file_stays() -> None:
    assert steps(LAB, slot("5"), slot("6")) == []


def test_a_machine_that_did_not_answer_is_tried_again_after_half_a_minute() -> None:
    facts = {"key": "", "machine": "box", "party": "machine"}
    for age, expected in ((29.0, []), (31.0, ["delete 6"])):
        failed = {"state": PoolNodeState.FAILED, "state_time": NOW - age, "driver_data": facts}
        assert steps(LAB, slot("5"), slot("6", **failed)) == expected


@pytest.mark.parametrize(
    "fields", [{"hostname": "other"}, {"username": "root"}, {"connection_port": 2222}, {"slot": 2}], ids=str
)
def test_an_idle_slot_that_the_file_does_not_have_is_deleted(fields: dict[str, Any]) -> None:
    assert "delete 6" in steps(LAB, slot("5"), slot("6", **fields))


def test_an_idle_slot_with_other_labels_is_deleted_and_a_used_one_stays() -> None:
    assert steps(LAB, slot("5"), slot("6", "x", "y")) == ["delete 6"]
    assert steps(LAB, slot("5"), slot("6", "y", state=PoolNodeState.IN_USE, locked=True)) == []


@pytest.mark.parametrize("labels", [("x",), ("former",)])
def test_a_slot_that_the_file_has_no_longer_is_not_launched_further(labels: tuple[str, ...]) -> None:
    hostname = "box" if labels == ("former",) else "gone"
    begun = {"state": PoolNodeState.BUILDING, "state_time": OLD, "driver_data": FACTS, "hostname": hostname}
    assert "delete 6" in steps(LAB, slot("5"), slot("6", *labels, **begun))
    assert steps(LAB, slot("5"), slot("6", **begun | {"hostname": "box"})) == ["adopt 6"]


def test_of_two_free_nodes_in_one_slot_the_later_one_is_deleted_and_not_handed_out() -> None:
    twins = slot("5"), slot("6"), slot("7", slot=0)
    assert steps(LAB, *twins) == ["delete 7"]
    assert "allocate 5,6 to 1" in steps(LAB, *twins, held("1", "x", "x"))


@pytest.mark.parametrize("taken", [{"state": PoolNodeState.IN_USE}, {"allocated_to": "100-0000000001"}], ids=str)
def test_a_free_node_in_the_slot_of_a_user_is_deleted_and_not_handed_out(taken: dict[str, Any]) -> None:
    user = slot("7", slot=0, locked=True, **taken)
    assert steps(LAB, slot("5"), slot("6"), user) == ["delete 5"]
    assert steps(LAB, slot("5"), slot("6", state=PoolNodeState.IN_USE, locked=True), user, held("2", "x")) == [
        "delete 5"
    ]


def test_a_record_without_a_slot_takes_the_first_free_one() -> None:
    assert steps(LAB, slot("5", slot=None)) == ["launch cloud/lab x on box/1"]


def test_two_machines_of_one_name_differ_by_port() -> None:
    two = machines(
        "lab", *(StaticMachine(name="box", labels=("x",), port=port) for port in (22, 2222)), provider="cloud"
    )
    found = decided(configuration(two), slot("5", connection_port=2222))
    assert [(text(each), each.port) for each in found.steps] == [("launch cloud/lab x on box/0", 22)]  # type: ignore[union-attr]


def test_no_slot_is_entered_while_the_provider_fails() -> None:
    assert steps(LAB, faults={"cloud": "no answer"}) == []


@pytest.mark.parametrize("state", [PoolNodeState.READY, PoolNodeState.USED, PoolNodeState.DELETING])
def test_only_a_launch_has_the_deadline_of_launches(state: PoolNodeState) -> None:
    assert steps(CLOUD, launch(state, state_time=NOW - 1e6, locked=True, ours=True)) == []
