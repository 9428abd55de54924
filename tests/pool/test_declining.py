"""Pools that can never serve a request decline it; it fails when no candidate is left."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.configuration import LaunchProvider, StaticMachine
from nodepool_ocb.pool.instructions import DeclineRequest
from nodepool_ocb.pool.views import ProviderQuota
from tests.pool.poolworld import NOW, configuration, decided, held, label, machines, member, node, pool, request, steps

MAIN = pool("main", "small", label("imaged", image="debian"), limits={"instances": 2})
CLOUD = configuration(MAIN)
MINE = member(MAIN)
R1 = "100-0000000001"


def reason(found: Any) -> str:
    (step,) = (each for each in found.steps if isinstance(each, DeclineRequest))
    return step.reason


def test_a_request_that_no_pool_can_hold_fails_at_once_with_the_reason() -> None:
    found = decided(CLOUD, request("1", "small", "small", "small"))
    assert reason(found) == "cloud/main: the request needs 3 instances; the limit of pool main is 2"


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"quotas": {"cloud": ProviderQuota(limits={"instances": 0})}}, "the quota of cloud is 0"),
        ({}, None),
    ],
    ids=["quota", "no quota"],
)
def test_the_quota_of_the_provider_counts(fields: Any, part: str | None) -> None:
    found = decided(CLOUD, request("1", "small"), **fields)
    assert (part in reason(found)) if part else steps(CLOUD, request("1", "small")) == ["claim 1"]


def test_foreign_usage_delays_a_request_and_does_not_fail_it() -> None:
    quota = {"cloud": ProviderQuota(limits={"instances": 2}, foreign={"instances": 2})}
    assert steps(CLOUD, request("1", "small"), quotas=quota) == ["claim 1"]  # as the first one that waits
    assert steps(CLOUD, held("1", "small"), quotas=quota) == []


def test_a_pool_may_ignore_the_quota() -> None:
    file = configuration(pool("main", "small", ignore_provider_quota=True))
    assert steps(file, held("1", "small"), quotas={"cloud": ProviderQuota(limits={"instances": 0})}) == [
        "launch cloud/main small for 1"
    ]


def test_a_disabled_pool_declines() -> None:
    file = configuration(pool("main", "small", limits={"instances": 0}))
    assert steps(file, request("1", "small")) == ["fail request 1"]


def test_a_request_above_the_limit_of_its_tenant_fails() -> None:
    file = configuration(MAIN, tenant_limits={"t": {"instances": 1}})
    assert steps(file, request("1", "small", "small", tenant_name="t")) == ["fail request 1"]
    assert steps(file, request("1", "small", "small", tenant_name="u")) == ["claim 1"]


def test_machines_with_too_few_slots_decline() -> None:
    lab = machines("lab", StaticMachine(name="m", labels=("x", "y"), slots=2))
    fields = {"hostname": "m", "username": "zuul", "connection_port": 22}
    taken = [node(each, "x", "y", place=lab, slot=int(each) - 5, **fields) for each in "56"]
    file = configuration(lab)
    assert steps(file, request("1", "x", "x", "y"), *taken) == ["fail request 1"]
    assert steps(file, request("1", "x", "y"), *taken) == ["claim 1"]


def test_labels_of_two_pools_are_refused_since_one_pool_serves_a_request() -> None:
    file = configuration(pool("one", "a"), pool("two", "b"))
    found = decided(file, request("1", "a", "b"))
    assert reason(found) == "no pool of a running launcher has all its labels; one pool serves a request"


def test_a_request_for_too_many_nodes_fails() -> None:
    assert steps(configuration(pool("main", "small")), request("1", *["small"] * 1001)) == ["fail request 1"]


# -- waits with a deadline --


@pytest.mark.parametrize("fields", [{}, {"faults": {"cloud": "no answer"}}], ids=["image", "fault"])
def test_a_missing_image_or_a_failing_provider_fails_a_request_after_a_deadline(fields: Any) -> None:
    wanted = "small" if fields else "imaged"
    found = decided(CLOUD, request("1", wanted, created=NOW - 3599), **fields)
    assert (found.steps, found.seconds) == ((), 1.0)
    assert steps(CLOUD, request("1", wanted, created=NOW - 3600), **fields) == ["fail request 1"]


def test_a_pool_with_max_concurrency_zero_lets_requests_wait() -> None:
    file = configuration(MAIN, providers={"cloud": {"max_concurrency": 0}})
    assert steps(file, request("1", "small", created=NOW - 1e6)) == []


# -- several launchers --


def test_a_label_of_no_launcher_fails_the_request() -> None:
    found = decided(CLOUD, request("1", "huge"))
    assert "no running launcher has the label huge" in reason(found)


def test_a_label_of_no_pool_fails_the_request_also_behind_one_that_waits_for_a_full_pool() -> None:
    used = [node(id, "small", state=PoolNodeState.IN_USE, locked=True) for id in ("5", "6")]
    assert steps(CLOUD, request("1", "small"), request("2", "huge"), *used) == ["claim 1", "fail request 2"]


def test_a_request_that_another_launcher_can_serve_is_left_to_it() -> None:
    other = member(pool("far", "huge", provider="far"), 2)
    assert steps(CLOUD, request("1", "huge"), members=(MINE, other)) == []


def test_an_own_pool_declines_though_another_launcher_may_serve() -> None:
    other = member(pool("far", "small", provider="far"), 2)
    assert steps(CLOUD, request("1", *["small"] * 3), members=(MINE, other)) == ["decline 1 by 1-cloud-main"]


def test_a_request_does_not_fail_before_nodepools_launchers_declined_it() -> None:
    theirs = member(pool("far", "other", provider="far"), 2, native=False)
    found = request("1", *["small"] * 3)
    assert steps(CLOUD, found, members=(MINE, theirs)) == ["decline 1 by 1-cloud-main"]
    declined = request("1", *["small"] * 3, declined_by=("2-far-far",))
    assert steps(CLOUD, declined, members=(MINE, theirs)) == ["fail request 1"]


def test_nothing_is_declined_before_the_own_registration_is_visible() -> None:
    assert steps(CLOUD, request("1", "huge"), members=()) == []


def test_a_request_for_a_provider_is_left_to_it_while_it_may_serve() -> None:
    far = pool("far", "small", provider="far")
    wish = {"provider": "far"}
    assert steps(CLOUD, request("1", "small", **wish), members=(MINE, member(far, 2))) == []
    assert steps(CLOUD, request("1", "small", **wish), members=(MINE,)) == ["claim 1"]
    declined = request("1", "small", declined_by=("2-far-far",), **wish)
    assert steps(CLOUD, declined, members=(MINE, member(far, 2))) == ["claim 1"]


# -- launches that fail --


def failed(attempt: int, age: float = 100.0, **fields: Any) -> Any:
    facts = {"key": "", "attempt": attempt, **fields.pop("facts", {})}
    return node(
        "5",
        "small",
        **{
            "state": PoolNodeState.FAILED,
            "state_time": NOW - age,
            "allocated_to": R1,
            "driver_data": facts,
            "reason": "no boot",
            **fields,
        },
    )


def test_a_failed_launch_is_tried_again_after_a_back_off() -> None:
    found = decided(CLOUD, held("1", "small"), failed(1, age=2.0))
    assert (found.steps, found.seconds) == ((), 3.0)
    assert steps(CLOUD, held("1", "small"), failed(1, age=5.0)) == [
        "launch cloud/main small for 1 attempt 2",
        "delete 5",
    ]
    assert steps(CLOUD, held("1", "small"), failed(2, age=9.0)) == []


def test_a_pool_declines_after_the_last_try_with_each_launcher_of_this_product() -> None:
    other = member(pool("far", "small", provider="far"), 2)
    everyone = (MINE, member(MAIN, 2), other)
    assert steps(CLOUD, held("1", "small"), failed(3), members=everyone) == ["decline 1 by 1-cloud-main,2-cloud-main"]
    found = decided(CLOUD, held("1", "small"), failed(3))
    assert reason(found) == "cloud/main: 3 launches failed; the last one: no boot"


def test_the_number_of_tries_is_the_providers() -> None:
    file = configuration(MAIN, providers={"cloud": {"launch_retries": 1}})
    assert file.providers["cloud"] == LaunchProvider(
        name="cloud", driver="fake", pools={"main": MAIN}, launch_retries=1
    )
    assert steps(file, held("1", "small"), failed(1)) == ["fail request 1"]


def test_a_launch_that_can_never_succeed_is_not_tried_again() -> None:
    assert steps(CLOUD, held("1", "small"), failed(1, facts={"party": "request"})) == ["fail request 1"]


def test_the_next_try_waits_for_the_end_of_the_former_machine() -> None:
    machine = failed(1, age=300.0, external_id="m1", locked=True)
    found = decided(CLOUD, held("1", "small"), machine)
    assert (found.steps, found.seconds) == ((), 300.0)
    assert steps(CLOUD, held("1", "small"), failed(1, age=600.0, external_id="m1", locked=True)) == ["fail request 1"]


def test_a_kept_machine_counts_as_a_try() -> None:
    kept = failed(1, state=PoolNodeState.HOLD, facts={"party": "machine"}, external_id="m1")
    assert steps(CLOUD, held("1", "small"), kept) == ["launch cloud/main small for 1 attempt 2"]


def test_a_refusal_for_the_quota_counts_as_no_try_and_stops_launches_of_the_provider() -> None:
    aborted = failed(3, age=2.0, state=PoolNodeState.ABORTED, facts={"party": "quota"})
    found = decided(CLOUD, held("1", "small"), aborted)
    assert (found.steps, found.seconds) == ((), 8.0)
    later = failed(3, age=10.0, state=PoolNodeState.ABORTED, facts={"party": "quota"})
    assert steps(CLOUD, held("1", "small"), later) == ["launch cloud/main small for 1 attempt 3"]


def test_a_fault_of_a_launchers_host_stops_no_provider() -> None:
    aborted = failed(1, age=2.0, state=PoolNodeState.ABORTED, facts={"party": "host"}, allocated_to="100-0000000002")
    other = request("2", "small", state=RequestState.PENDING, locked_by="host2")
    assert steps(CLOUD, held("1", "small"), aborted, other) == ["launch cloud/main small for 1"]


def test_after_a_refusal_for_the_quota_another_pool_is_tried() -> None:
    file = configuration(MAIN, pool("far", "small", provider="far"))
    aborted = failed(1, age=2.0, state=PoolNodeState.ABORTED, facts={"party": "quota"})
    assert steps(file, held("1", "small"), aborted) == ["launch far/far small for 1"]


def test_a_pool_that_no_longer_holds_the_request_gives_it_up() -> None:
    ready = node("5", "small", allocated_to=R1)
    assert steps(CLOUD, held("1", *["small"] * 3), ready) == ["fail request 1"]


def test_nodes_of_a_pool_that_declined_are_free_again() -> None:
    declined = request("1", "small", declined_by=("1-cloud-main",))
    assert "free 5" in steps(CLOUD, declined, node("5", "small", allocated_to=R1))
