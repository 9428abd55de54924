"""Several launchers, of this product and of Nodepool: one serves a request, and a successor continues its work."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.pool.deciding import decide
from nodepool_ocb.pool.ranking import owner, ranked
from nodepool_ocb.pool.serving import MOST_CLAIMS, YIELD_SECONDS
from nodepool_ocb.pool.views import PoolLauncher, RequestView
from tests.pool.poolworld import (
    NOW,
    configuration,
    decided,
    held,
    launcher,
    member,
    members,
    node,
    pool,
    request,
    steps,
    text,
    view,
)

MAIN = pool("main", "small", limits={"instances": 2})
CLOUD = configuration(MAIN)
FAR = pool("far", "small", provider="far")
R1 = "100-0000000001"


def claimed(session: int, *requests: RequestView, at: float = NOW) -> set[str]:
    shown = view(CLOUD, *requests, members=members(CLOUD, 1, 2, 3))
    return {text(each) for each in decide(shown, CLOUD, launcher(CLOUD, session), at).steps}


def test_each_request_is_claimed_by_one_launcher() -> None:
    wide = configuration(pool("main", "small"))
    requests = [request(str(each), "small") for each in range(1, 61)]
    shown = view(wide, *requests, members=members(wide, 1, 2, 3))
    each = [{text(step) for step in decide(shown, wide, launcher(wide, one), NOW).steps} for one in (1, 2, 3)]
    assert sum(map(len, each)) == len(set().union(*each)) == 60
    assert all(len(one) > 5 for one in each)


def test_a_launcher_that_does_not_claim_in_time_is_passed() -> None:
    first = next(session for session in (1, 2, 3) if claimed(session, request("1", "small")))
    others = {1, 2, 3} - {first}
    assert all(not claimed(session, request("1", "small"), at=NOW + YIELD_SECONDS - 1) for session in others)
    assert all(claimed(session, request("1", "small"), at=NOW + 2 * YIELD_SECONDS) for session in others)


@pytest.mark.parametrize("ours", [{"priority": 200}, {"priority": 50}])
def test_a_pool_of_a_higher_priority_goes_first(ours: dict[str, int]) -> None:
    file = configuration(pool("main", "small", **ours))
    theirs = member(FAR, 2, native=False)
    found = decided(file, request("1", "small"), members=(*members(file), theirs))
    assert (len(found.steps), found.seconds) == ((0, YIELD_SECONDS) if ours["priority"] > 100 else (1, None))


def test_no_paused_pool_goes_first() -> None:
    file = configuration(pool("main", "small", priority=200))
    paused = (*members(file), member(FAR, 2, native=False, paused=True))
    assert steps(file, request("1", "small"), members=paused) == ["claim 1"]


def test_ready_nodes_decide_among_own_pools_of_one_priority() -> None:
    file = configuration(MAIN, FAR)
    for place in (MAIN, FAR):
        assert steps(file, held("1", "small"), node("5", "small", place=place)) == ["allocate 5 to 1"]


def test_the_priority_of_own_pools_comes_before_ready_nodes() -> None:
    file = configuration(MAIN, pool("far", "small", provider="far", priority=50))
    assert steps(file, held("1", "small"), node("5", "small", place=MAIN)) == ["launch far/far small for 1"]


def test_the_first_that_waits_is_not_claimed_if_another_launcher_may_serve_it_sooner() -> None:
    busy = [node(each, "small", state=PoolNodeState.IN_USE, locked=True) for each in "56"]
    assert steps(CLOUD, request("1", "small"), *busy) == ["claim 1"]
    other = (member(MAIN), member(FAR, 2))
    assert steps(CLOUD, request("1", "small"), *busy, members=other) == []
    assert steps(CLOUD, held("1", "small"), *busy, members=other) == ["release 1"]


# -- take-over --


def pending(**fields: Any) -> RequestView:
    return request("1", "small", "small", state=RequestState.PENDING, **fields)


def test_a_pending_request_with_a_free_lock_is_taken_over_with_its_nodes() -> None:
    ready = node("5", "small", allocated_to=R1)
    assert steps(CLOUD, pending(), ready) == ["claim 1"]
    assert steps(CLOUD, held("1", "small", "small"), ready) == ["launch cloud/main small for 1"]


def test_a_pending_request_of_another_launcher_is_left_to_it() -> None:
    assert steps(CLOUD, pending(locked_by="host2"), node("5", "small", allocated_to=R1)) == []


def test_a_launcher_with_the_pool_of_its_nodes_takes_a_request_over() -> None:
    ready = node("5", "small", place=FAR, allocated_to=R1)
    having = (member(MAIN), member(FAR, 2))
    assert steps(CLOUD, pending(), ready, members=having) == []
    assert steps(CLOUD, pending(), ready) == ["claim 1"]


def test_nodes_of_a_pool_that_no_launcher_has_are_free_again() -> None:
    ready = node("5", "small", place=FAR, allocated_to=R1)
    assert steps(CLOUD, held("1", "small"), ready) == ["free 5", "launch cloud/main small for 1"]


def test_the_later_of_two_unfinished_requests_returns_its_nodes_to_the_first() -> None:
    nodes = [node("5", "small", allocated_to=R1), node("6", "small", allocated_to="100-0000000002")]
    both = [held("1", "small", "small"), held("2", "small", "small")]
    assert steps(CLOUD, *both, *nodes) == ["free 6"]


def test_a_launcher_with_a_paused_pool_finishes_its_requests_and_begins_none() -> None:
    quiet = (member(MAIN, paused=True),)
    assert steps(CLOUD, request("1", "small"), members=quiet) == []
    ready = node("5", "small", allocated_to=R1)
    assert steps(CLOUD, held("1", "small", "small"), ready, members=quiet) == ["launch cloud/main small for 1"]


def test_a_lock_without_a_recorded_claim_is_freed() -> None:
    assert steps(CLOUD, request("1", "small", ours=True, locked_by="host1")) == ["release 1"]


# -- requests that end --


def test_an_expired_request_is_deleted_unless_its_nodes_are_used() -> None:
    late = {"expires": NOW}
    assert steps(CLOUD, request("1", "small", **late)) == ["delete request 1"]
    assert decided(CLOUD, request("1", "small", expires=NOW + 7, state=RequestState.FAILED)).seconds == 7.0
    done = {"state": RequestState.FULFILLED, "nodes": ("0000000005",), **late}
    ready = node("5", "small", allocated_to=R1)
    assert steps(CLOUD, request("1", "small", **done), ready) == ["delete request 1"]
    used = node("5", "small", allocated_to=R1, state=PoolNodeState.IN_USE, locked=True)
    assert steps(CLOUD, request("1", "small", **done), used) == []
    assert steps(CLOUD, request("1", "small", locked_by="host2", **late)) == []


def test_an_expired_request_is_deleted_by_the_launcher_that_holds_its_lock() -> None:
    everyone = (member(MAIN), *(member(MAIN, session) for session in range(2, 30)))
    for id in range(1, 9):
        late = held(str(id), "small", expires=NOW - 1)
        assert steps(CLOUD, late, members=everyone) == [f"delete request {id}"]


def test_a_fulfilled_request_without_its_nodes_is_deleted_after_a_while() -> None:
    done = request("1", "small", state=RequestState.FULFILLED, nodes=("0000000005",))
    assert decided(CLOUD, done).seconds == 60.0
    assert steps(CLOUD, done, at=NOW + 60) == ["delete request 1"]
    assert steps(CLOUD, done, node("5", "small", allocated_to=R1), at=NOW + 60) == []


# -- bounds --


def test_one_decision_claims_a_bounded_number_and_the_next_one_follows_at_once() -> None:
    wide = configuration(pool("main", "small"))
    found = decided(wide, *(request(str(each), "small") for each in range(1, MOST_CLAIMS + 5)))
    assert (len(found.steps), found.seconds) == (MOST_CLAIMS, 0.0)


def test_an_idle_launcher_wants_no_further_decision() -> None:
    found = decided(CLOUD, node("5", "small"))
    assert (found.steps, found.seconds) == ((), None)


def test_the_owner_is_the_first_of_the_ranking_and_changes_only_with_it() -> None:
    for work in map(str, range(50)):
        order = ranked(work, [1, 2, 3])
        assert owner(work, [3, 2, 1]) == order[0]
        assert owner(work, set(order) - {order[2]}) == order[0]
    assert owner("work", []) is None


def test_an_unregistered_launcher_decides_nothing_new() -> None:
    shown = view(CLOUD, request("1", "small"), node("5", "small", state=PoolNodeState.USED), members=members(CLOUD, 2))
    assert decide(shown, CLOUD, PoolLauncher(id="host1", session=1), NOW).steps == ()


@pytest.mark.parametrize("session", [1, 2])
def test_the_holder_of_a_request_without_a_pool_fails_it_though_another_launcher_came_meanwhile(session: int) -> None:
    held_one = held("1", "absent")
    shown = view(CLOUD, held_one, members=members(CLOUD, 1, 2))
    steps = decide(shown, CLOUD, launcher(CLOUD, session), NOW).steps
    assert [text(each) for each in steps] == ["fail request 1"]
