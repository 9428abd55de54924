"""Who is checked, when a schedule wants it, and what of that another annealer sees the same."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim, commands, deployments, drift
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.noderole import Event, after, apply
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import CheckResult, Checks, Drift, PendingCheck
from nodepool_ocb.model.records import Deployment, DeploymentState, Node, NodeRole, Role, State

NAME = "n1.example.com"
DAY = 86_400.0
DAILY = Checks(schedule="0 3 * * *", since=0.0)
FOUND = CheckResult(drift=Drift.DRIFTED, at=5 * DAY, run="r-check", epoch=7)


def world(checks: Checks | None = DAILY, **node: Any) -> World:
    made = World()
    made.put(Stored(Role(barclamp="b", jig="script", check="true"), 0), "ntp")
    made.put(Stored(Role(barclamp="b", jig="script"), 0), "plain")
    committed = DeploymentState.COMMITTED
    made.put(Stored(Deployment(parent=None, state=committed), 0), "system")
    made.put(Stored(Deployment(state=committed, checks=checks), 0), "lab")
    made.put(Stored(Deployment(parent="lab", state=committed), 0), "rack")
    made.put_node(NAME, Node(**{"alive": True, **node}), 0)
    return made


def bound(made: World, role: str = "ntp", **fields: Any) -> Vertex:
    record = NodeRole.of(**{"state": State.ACTIVE, "since": 4.5 * DAY, "deployment": "rack", **fields})
    return made.put_noderole(NAME, role, record, 0)


@pytest.mark.parametrize(
    ("now", "fields", "due"),
    [
        (5 * DAY + 3 * 3600, {}, True),
        (5 * DAY + 3 * 3600 - 1, {}, False),
        (9 * DAY, {}, True),
        (5 * DAY + 4 * 3600, {"since": 5 * DAY + 3.5 * 3600}, False),
        (6 * DAY, {"checked": replace(FOUND, at=5 * DAY + 3.1 * 3600)}, False),
        (6 * DAY + 3 * 3600, {"checked": replace(FOUND, at=5 * DAY + 3.1 * 3600)}, True),
        (9 * DAY, {"check": PendingCheck(), "refresh": True}, False),
        (9 * DAY, {"refresh": True}, False),
        (9 * DAY, {"state": State.ERROR}, False),
    ],
)
def test_due_is_what_neither_ran_nor_was_checked_since_the_last_tick(
    now: float, fields: dict[str, Any], due: bool
) -> None:
    made = world()
    assert drift.due(made, bound(made, **fields), now) is due


def test_a_tick_before_the_schedule_itself_is_not_made_up_for() -> None:
    made = world(replace(DAILY, since=5 * DAY + 14 * 3600))
    vertex = bound(made)
    assert not drift.due(made, vertex, 6 * DAY)
    assert drift.due(made, vertex, 6 * DAY + 3 * 3600)


def test_the_same_schedule_again_is_no_new_one() -> None:
    made = world()
    assert deployments.checked_by(made, "lab", replace(DAILY, since=8 * DAY)) == []
    [change] = deployments.checked_by(made, "lab", Checks(schedule="0 3 * * *", since=8 * DAY, refresh=True))
    assert change.data.checks == replace(DAILY, refresh=True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "node", [{"alive": False}, {"available": False}, {"virtual": True}, {"deleting": True}, {"dying": True}]
)
def test_a_schedule_leaves_machines_alone_that_cannot_be_asked(node: dict[str, Any]) -> None:
    made = world(replace(DAILY, refresh=True), **node)
    assert not drift.due(made, bound(made), 9 * DAY)
    assert not drift.to_be_mended(made, bound(made, checked=FOUND))


def test_what_cannot_be_read_is_neither_checked_nor_run_again() -> None:
    made = world(replace(DAILY, refresh=True))
    vertex = bound(made, checked=FOUND)
    made.unreadable[paths.noderole("ntp", NAME)] = "garbage"
    assert not drift.due(made, vertex, 9 * DAY)
    assert not drift.to_be_mended(made, vertex)


def test_a_schedule_that_a_hand_spoiled_wants_nothing() -> None:
    made = world(Checks(schedule="whenever", since=0.0))
    assert not drift.due(made, bound(made), 9 * DAY)


@pytest.mark.parametrize(
    ("fields", "mended"),
    [({}, True), ({"once": "done"}, False), ({"refresh": True}, False), ({"checked": None}, False)],
)
def test_what_drifted_is_run_again_where_its_deployment_says_so(fields: dict[str, Any], mended: bool) -> None:
    made = world(replace(DAILY, refresh=True))
    assert drift.to_be_mended(made, bound(made, **{"checked": FOUND, **fields})) is mended
    assert not drift.to_be_mended(world(), bound(world(), checked=FOUND))


def test_a_run_that_is_to_mend_drift_is_followed_by_a_check_at_once() -> None:
    made = world(replace(DAILY, refresh=True, since=9 * DAY))
    assert drift.due(made, bound(made, mended=True), 9 * DAY)
    assert not drift.due(made, bound(made), 9 * DAY)
    assert not drift.due(made, bound(made, mended=True, checked=FOUND), 9 * DAY), "once"
    assert not drift.due(made, bound(made, mended=True, refresh=True), 9 * DAY)
    assert not drift.due(world(None), bound(world(None), mended=True), 9 * DAY)


def test_what_is_to_mend_drift_is_known_until_its_check_has_ended() -> None:
    record = NodeRole.of(state=State.ACTIVE, since=0.0, refresh=True, mended=True)
    for event in (Event.CLAIM, Event.SUCCEED, Event.CHECK, Event.CLAIM):
        record = after(record, event, 1.0)
        assert record.mended
    assert drift.noted(record, Drift.DRIFTED, 5.0, "r-check", 7).unmended
    assert not after(record, Event.CHECKED, 1.0).mended
    for event in (Event.WITHDRAW, Event.PROPOSE, Event.REFRESH, Event.NODE_DIED):
        assert not after(NodeRole.of(state=State.ACTIVE, since=0.0, refresh=True, mended=True), event, 1.0).mended


@pytest.mark.parametrize(
    ("found", "mended", "before", "unmended"),
    [
        (Drift.DRIFTED, True, False, True),
        (Drift.DRIFTED, False, True, True),
        (Drift.DRIFTED, False, False, False),
        (Drift.IN_SYNC, True, True, False),
        (Drift.UNKNOWN, True, True, False),
    ],
)
def test_drift_that_a_refresh_did_not_mend_is_refreshed_no_more(
    found: Drift, mended: bool, before: bool, unmended: bool
) -> None:
    made = world(replace(DAILY, refresh=True))
    record = bound(made, mended=mended, checked=replace(FOUND, unmended=before)).record
    checked = drift.noted(record, found, 5 * DAY, "r-check", 7)
    assert checked.unmended is unmended
    vertex = bound(made, checked=checked)
    assert drift.to_be_mended(made, vertex) is (found is Drift.DRIFTED and not unmended)
    assert ("changed nothing" in drift.sentence(vertex.record)) is unmended


def test_it_says_why_one_cannot_be_checked() -> None:
    made = world()
    assert "has no check" in str(drift.refusal(made, bound(made, "plain")))
    assert "is ERROR" in str(drift.refusal(made, bound(made, state=State.ERROR)))
    assert "already waits for a rerun" in str(drift.refusal(made, bound(made, refresh=True)))
    going_on = bound(made, state=State.TRANSITION, refresh=True, check=PendingCheck())
    assert drift.refusal(made, going_on) is None, "it is checked already"
    made.put(Stored(Deployment(parent="lab"), 1), "rack")
    assert "annealers may not work" in str(drift.refusal(made, bound(made)))


def test_nothing_is_run_again_where_annealers_may_not_work() -> None:
    made = world(replace(DAILY, refresh=True))
    made.put(Stored(Deployment(parent="lab"), 1), "rack")
    assert not drift.to_be_mended(made, bound(made, checked=FOUND))


def test_a_check_waits_for_no_other_and_keeps_no_refresh_waiting() -> None:
    made = world()
    above = bound(made, refresh=True, check=PendingCheck())
    below = made.put_noderole(
        NAME,
        "plain",
        NodeRole.of(state=State.ACTIVE, since=0.0, deployment="rack", parents=(f"ntp@{NAME}",), refresh=True),
        0,
    )
    assert Code.PARENT_WAITING not in {reason.code for reason in why_not(made, below, 9 * DAY)}
    made.put_noderole(NAME, "ntp", above.record.amended(check=None), 1)
    assert Code.PARENT_WAITING in {reason.code for reason in why_not(made, below, 9 * DAY)}


def test_a_destructive_noderole_may_be_checked_and_is_not_refreshed() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="script", check="true", flags=("destructive",)), 1), "ntp")
    vertex = bound(made, once="done")
    [changes] = list(commands.apply_to(made, [vertex], Event.CHECK, 9 * DAY))
    advance(made, changes)
    assert changes[0].data.once == "done"  # type: ignore[union-attr]
    assert Code.DESTRUCTIVE_DONE not in {reason.code for reason in why_not(made, vertex, 9 * DAY)}


def test_what_drifted_in_a_deployment_that_cannot_be_read_is_left_alone() -> None:
    made = world(replace(DAILY, refresh=True))
    vertex = bound(made, checked=FOUND)
    assert drift.to_be_mended(made, vertex)
    made.drop(Deployment, "rack")
    assert not drift.to_be_mended(made, vertex)


def test_the_claim_of_a_check_starts_nothing_destructive() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="script", check="true", flags=("destructive",)), 1), "ntp")
    vertex = bound(made, once="done", refresh=True, check=PendingCheck())
    made.put_fence(NAME, 3)
    assert claim.take(made, vertex, "a", "r-check", 1.0).record.once == "done"


def test_a_check_that_ends_calls_no_hook() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="script", check="true", hooks=("on_active",)), 1), "ntp")
    running = {"state": State.TRANSITION, "refresh": True}
    ran = bound(made, **running)
    assert apply({ran: Event.SUCCEED}, 1.0)[ran].hooks == ("on_active",)
    checked = bound(made, **running, check=PendingCheck())
    assert apply({checked: Event.CHECKED}, 1.0)[checked].hooks == ()


def test_a_check_that_was_to_end_is_over_when_it_has_ended() -> None:
    record = NodeRole.of(
        state=State.TRANSITION,
        since=2.0,
        refresh=True,
        check=PendingCheck(since=1.0),
        cancel_reason="enough",
        generation=4,
    )
    ended = after(record, Event.CHECKED, 9.0)
    assert (ended.state, ended.check, ended.cancel_reason, ended.refresh) == (State.ACTIVE, None, None, False)
    assert (ended.since, ended.generation) == (1.0, 4)


def test_the_word_of_a_script_that_checks_itself_is_part_of_its_format() -> None:
    assert drift.HONOURED == "--check"
