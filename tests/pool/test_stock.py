"""min-ready and max-concurrency."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.configuration import PoolConfiguration, PoolLabelPolicy, StaticMachine
from nodepool_ocb.pool.deciding import decide
from tests.pool.poolworld import (
    NOW,
    configuration,
    decided,
    held,
    label,
    launcher,
    machines,
    member,
    members,
    node,
    pool,
    request,
    steps,
    text,
    view,
)

MAIN = pool("main", "small", label("imaged", image="debian"), limits={"instances": 3})


def kept(number: int = 1, of: str = "small", **fields: Any) -> PoolConfiguration:
    return configuration(MAIN, labels=[PoolLabelPolicy(name=of, min_ready=number)], **fields)


@pytest.mark.parametrize(
    "state", [PoolNodeState.INIT, PoolNodeState.BUILDING, PoolNodeState.TESTING, PoolNodeState.READY]
)
def test_an_unfinished_launch_counts_as_ready(state: PoolNodeState) -> None:
    assert steps(kept(), node("5", "small", state=state, locked=True)) == []


@pytest.mark.parametrize("fields", [{"state": PoolNodeState.IN_USE}, {"allocated_to": "100-0000000001"}], ids=str)
def test_a_node_of_a_request_does_not_count(fields: dict[str, Any]) -> None:
    assert steps(kept(), node("5", "small", locked=True, **fields)) == ["launch cloud/main small"]


def test_no_more_than_the_limit_is_launched() -> None:
    assert steps(kept(5)) == ["launch cloud/main small"] * 3


def test_a_registered_pool_that_the_file_no_longer_has_gets_no_node() -> None:
    far = pool("far", "small", provider="far")
    before = kept()
    both = configuration(MAIN, far, labels=[PoolLabelPolicy(name="small", min_ready=1)])
    found = decide(view(both), before, launcher(both), NOW)
    assert [text(step) for step in found.steps] == ["launch cloud/main small"]


def test_nothing_is_launched_while_a_request_waits_for_the_capacity() -> None:
    busy = node("5", "small", state=PoolNodeState.IN_USE, locked=True)
    wide = request("1", "small", "small", "small")
    assert steps(kept(), wide, busy) == ["claim 1"]
    far = pool("far", "small", provider="far")
    both = configuration(MAIN, far, labels=[PoolLabelPolicy(name="small", min_ready=1)])
    assert steps(both, request("1", "imaged", *["small"] * 2), busy, images={})[-1:] == ["launch far/far small"]


def test_nothing_is_launched_without_the_image_or_from_a_failing_provider() -> None:
    assert steps(kept(of="imaged")) == []
    assert steps(kept(), faults={"cloud": "no answer"}) == []


def test_a_failed_launch_for_min_ready_is_tried_again_with_a_growing_back_off() -> None:
    def failed(attempt: int, age: float) -> Any:
        facts = {"key": "", "attempt": attempt}
        return node("5", "small", state=PoolNodeState.FAILED, state_time=NOW - age, driver_data=facts)

    assert steps(kept(), failed(1, 5.0)) == ["launch cloud/main small attempt 2"]
    found = decided(kept(), failed(3, 15.0))
    assert (found.steps, found.seconds) == ((), 5.0)


def test_nodes_are_spread_over_pools_of_one_priority() -> None:
    far = pool("far", "small", provider="far")
    both = configuration(MAIN, far, labels=[PoolLabelPolicy(name="small", min_ready=4)])
    assert sorted(steps(both)) == ["launch cloud/main small"] * 2 + ["launch far/far small"] * 2


def test_one_launcher_maintains_a_label() -> None:
    file = kept()
    shown = members(file, 1, 2, 3)
    labels = configuration(
        pool("main", *(f"l{each}" for each in range(30))),
        labels=[PoolLabelPolicy(name=f"l{each}", min_ready=1) for each in range(30)],
    )
    assert 0 < len(steps(labels, members=members(labels, 1, 2, 3))) < 30
    assert len(shown) == 3


def test_a_launcher_without_the_label_in_its_min_ready_is_no_keeper() -> None:
    file = kept()
    others = tuple(member(MAIN, session) for session in range(2, 20))
    mute = tuple(type(each)(path=each.path, record=each.record, session=each.session, kept=()) for each in others)
    assert steps(file, members=(*members(file), *mute)) == ["launch cloud/main small"]


def test_max_concurrency_counts_unfinished_launches() -> None:
    file = configuration(MAIN, providers={"cloud": {"max_concurrency": 2}})
    building = node("9", "small", state=PoolNodeState.BUILDING, locked=True)
    assert steps(file, held("1", "small", "small"), building) == ["launch cloud/main small for 1"]
    full = [building, node("8", "small", state=PoolNodeState.INIT, locked=True)]
    assert steps(file, held("1", "small"), *full) == []
    assert steps(kept(5, providers={"cloud": {"max_concurrency": 1}})) == ["launch cloud/main small"]


def test_the_volume_limit_of_a_tenant_holds() -> None:
    disk = pool("main", label("disk", **{"volume-gb": 60.0}))
    file = configuration(disk, tenant_limits={"t": {"volume-gb": 100.0}})
    used = node(
        "5",
        "disk",
        state=PoolNodeState.IN_USE,
        locked=True,
        tenant_name="t",
        resources={"instances": 1, "volume_gb": 60},
    )
    assert steps(file, held("1", "disk", tenant_name="t"), used) == []
    assert steps(file, held("1", "disk", tenant_name="u"), used) == ["launch cloud/main disk for 1"]


def test_a_tenant_at_its_limit_does_not_stop_another() -> None:
    file = configuration(MAIN, tenant_limits={"t": {"instances": 1}})
    used = node("5", "small", state=PoolNodeState.IN_USE, locked=True, tenant_name="t")
    asked = [request("1", "small", tenant_name="t"), request("2", "small", tenant_name="u")]
    assert steps(file, *asked, used) == ["claim 2"]
    assert steps(file, held("1", "small", tenant_name="t"), held("2", "small", tenant_name="u"), used) == [
        "launch cloud/main small for 2"
    ]


def test_a_small_request_does_not_pass_a_wide_one_of_its_tenant_at_the_limit() -> None:
    file = configuration(pool("main", "small"), tenant_limits={"t": {"instances": 2}})
    used = node("5", "small", state=PoolNodeState.IN_USE, locked=True, tenant_name="t")
    asked = [request("1", "small", "small", tenant_name="t"), request("2", "small", tenant_name="t")]
    assert steps(file, *asked, used) == []


def test_a_free_node_that_a_tenant_had_before_does_not_count_against_its_limit() -> None:
    file = configuration(pool("main", "small"), tenant_limits={"t": {"instances": 1}})
    returned = node("5", "small", tenant_name="t")
    assert steps(file, request("1", "small", tenant_name="t"), returned) == ["claim 1"]


def test_a_request_stays_requested_while_it_waits_for_a_static_machine_or_its_tenant() -> None:
    lab = machines("lab", StaticMachine(name="m", labels=("x",)), provider="lab")
    file = configuration(lab, pool("main", "small", limits={"instances": 1}), tenant_limits={"t": {"instances": 1}})
    fields = {"state": PoolNodeState.IN_USE, "locked": True}
    slot = node("5", "x", place=lab, hostname="m", username="zuul", connection_port=22, slot=0, **fields)
    assert steps(file, request("1", "x"), slot) == []
    assert (
        steps(file, request("1", "small", tenant_name="t"), node("6", "small", tenant_name="t", **fields), slot) == []
    )
    assert steps(file, request("1", "small"), node("6", "small", **fields), slot) == ["claim 1"]  # a pool that launches


def test_the_limit_of_a_provider_counts_all_its_pools() -> None:
    file = configuration(MAIN, pool("side", "wee"), providers={"cloud": {"limits": {"instances": 1}}})
    used = node("5", "wee", place=pool("side", "wee"), state=PoolNodeState.IN_USE, locked=True)
    assert steps(file, held("1", "small"), used) == []
    assert steps(file, held("1", "small")) == ["launch cloud/main small for 1"]
