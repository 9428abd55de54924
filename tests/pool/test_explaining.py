"""The reason why a request waits agrees with the decision."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.explaining import explain, reasons
from tests.pool.poolworld import NOW, configuration, label, member, node, pool, request, view

MAIN = pool("main", "small", label("imaged", image="debian"), limits={"instances": 2})
CLOUD = configuration(MAIN, tenant_limits={"t": {"instances": 1}})
R1 = "100-0000000001"
BUSY = [node(each, "small", state=PoolNodeState.IN_USE, locked=True) for each in "56"]


def code(*each: Any, of: str = "1", **fields: Any) -> str:
    shown = view(CLOUD, *each, **fields)
    return explain(shown, CLOUD, shown.requests[f"100-{of.zfill(10)}"], NOW).code


def test_a_request_at_the_limit_of_its_pool_says_so_with_the_usage() -> None:
    shown = view(CLOUD, request("1", "small"), *BUSY)
    found = explain(shown, CLOUD, shown.requests[R1], NOW)
    assert (found.place, found.code, found.reason) == (
        1,
        "LIMIT",
        "cloud/main: pool main: instances: 2 of 2 in use, 1 needed",
    )
    assert [(each.pool, each.code) for each in found.pools] == [("main", "LIMIT")]


def test_a_later_request_waits_for_reserved_capacity() -> None:
    assert code(request("1", "small", "small"), request("2", "small"), BUSY[0], of="2") == "RESERVED"


@pytest.mark.parametrize(
    ("each", "fields", "expected"),
    [
        ([request("1", "small")], {}, "STARTING"),
        ([request("1", "imaged")], {}, "NO_IMAGE"),
        ([request("1", "small")], {"faults": {"cloud": "no answer"}}, "PROVIDER_FAULT"),
        ([request("1", "small")], {"members": (member(MAIN, state="paused"),)}, "PAUSED"),
        ([request("1", "huge")], {}, "NO_LAUNCHER"),
        ([request("1", "huge")], {"members": (member(pool("far", "huge"), 7),)}, "ELSEWHERE"),
        (
            [request("1", "small", tenant_name="t"), node("5", "small", tenant_name="t", state=PoolNodeState.HOLD)],
            {},
            "TENANT_LIMIT",
        ),
        (
            [request("1", "small"), node("5", "small", allocated_to=R1, state=PoolNodeState.BUILDING, locked=True)],
            {},
            "LAUNCHING",
        ),
        (
            [
                request("1", "small"),
                node(
                    "5",
                    "small",
                    allocated_to=R1,
                    state=PoolNodeState.FAILED,
                    driver_data={"key": "", "attempt": 1},
                ),
            ],
            {},
            "BACKOFF",
        ),
        ([request("1", "small", state=RequestState.FULFILLED)], {}, "FULFILLED"),
    ],
)
def test_each_cause_has_its_code(each: Any, fields: Any, expected: str) -> None:
    assert code(*each, **fields) == expected


def test_a_failed_request_has_the_reason_of_its_record() -> None:
    shown = view(CLOUD, request("1", "small", state=RequestState.FAILED, reason="no pool"))
    assert explain(shown, CLOUD, shown.requests[R1], NOW).reason == "no pool"


def test_one_pass_explains_all_as_one_by_one() -> None:
    shown = view(CLOUD, *(request(str(each), "small", relative_priority=each % 3) for each in range(1, 9)), *BUSY)
    alone = {each.id: explain(shown, CLOUD, each, NOW) for each in shown.requests.values()}
    assert reasons(shown, CLOUD, NOW) == alone
    assert sorted(each.place for each in alone.values()) == list(range(1, 9))
