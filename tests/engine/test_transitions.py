"""Every transition of a noderole with all that it changes, written out: what the table says is held against this page."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event, after, renewing
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.drift import CheckResult, Drift, PendingCheck
from nodepool_ocb.model.records import NodeRole, State, keys_of

#: Before each event: everything has a value that is not the default, but for ``refresh``, ``check`` and ``cancel_reason``.
FOUND = CheckResult(drift=Drift.DRIFTED, at=0.5, run="r6-check", epoch=2)
BEFORE = NodeRole.of(
    state=State.PROPOSED,
    since=1.0,
    deployment="lab",
    parents=("os@n1",),
    serves=("osd",),
    generation=7,
    run="r7",
    epoch=3,
    attempt=2,
    reason="before",
    by="a1",
    once="started",
    not_before=50.0,
    hooks=("on_todo",),
    checked=FOUND,
)
TOLD = {"since": 9.0, "by": "ann", "reason": "why"}  # changed by every event but CANCEL

EXPECTED: dict[tuple[str, str], dict[str, Any]] = {
    ("PROPOSED", "COMMIT"): {"state": "TODO", "checked": None, "generation": 8, "attempt": 0, "not_before": 0.0},
    ("PROPOSED", "FAIL"): {"state": "ERROR"},
    ("BLOCKED", "PROPOSE"): {"state": "PROPOSED"},
    ("BLOCKED", "FAIL"): {"state": "ERROR"},
    ("BLOCKED", "NODE_DIED"): {"state": "TODO", "checked": None, "generation": 8, "not_before": 0.0},
    ("BLOCKED", "REDEPLOY"): {
        "state": "TODO",
        "checked": None,
        "generation": 8,
        "attempt": 0,
        "not_before": 0.0,
        "once": None,
    },
    ("TODO", "PROPOSE"): {"state": "PROPOSED"},
    ("TODO", "CLAIM"): {"state": "TRANSITION", "attempt": 3},
    ("TODO", "FAIL"): {"state": "ERROR"},
    ("TODO", "SKIP"): {"state": "ACTIVE"},
    ("ERROR", "ALLOW"): {"state": "ACTIVE"},
    ("TODO", "NODE_DIED"): {"state": "TODO", "checked": None, "generation": 8, "not_before": 0.0},
    ("TODO", "REDEPLOY"): {
        "state": "TODO",
        "checked": None,
        "generation": 8,
        "attempt": 0,
        "not_before": 0.0,
        "once": None,
    },
    ("TRANSITION", "CLAIM"): {"state": "TRANSITION"},
    ("TRANSITION", "SUCCEED"): {"state": "ACTIVE", "checked": None, "attempt": 0, "not_before": 0.0, "once": "done"},
    ("TRANSITION", "FAIL"): {"state": "ERROR", "once": None},
    ("TRANSITION", "DEFER"): {"state": "TODO", "checked": None, "generation": 8, "once": None},
    ("TRANSITION", "LOSE"): {"state": "TODO", "checked": None, "generation": 8},
    ("TRANSITION", "NODE_DIED"): {"state": "TODO", "checked": None, "generation": 8, "not_before": 0.0},
    ("ACTIVE", "PROPOSE"): {"state": "PROPOSED"},
    ("ACTIVE", "FAIL"): {"state": "ERROR"},
    ("ACTIVE", "REFRESH"): {"state": "ACTIVE", "refresh": True, "generation": 8, "not_before": 0.0},
    ("ACTIVE", "CHECK"): {"refresh": True, "check": PendingCheck(), "generation": 8, "not_before": 0.0, "since": 1.0},
    ("ACTIVE", "NODE_DIED"): {"state": "TODO", "checked": None, "generation": 8, "not_before": 0.0},
    ("ACTIVE", "REDEPLOY"): {
        "state": "TODO",
        "checked": None,
        "generation": 8,
        "attempt": 0,
        "not_before": 0.0,
        "once": None,
    },
    ("ERROR", "PROPOSE"): {"state": "PROPOSED"},
    ("ERROR", "FAIL"): {"state": "ERROR"},
    ("ERROR", "RETRY"): {
        "state": "TODO",
        "checked": None,
        "generation": 8,
        "attempt": 0,
        "not_before": 0.0,
        "once": None,
    },
    ("ERROR", "NODE_DIED"): {"state": "TODO", "checked": None, "generation": 8, "not_before": 0.0},
    ("ERROR", "REDEPLOY"): {
        "state": "TODO",
        "checked": None,
        "generation": 8,
        "attempt": 0,
        "not_before": 0.0,
        "once": None,
    },
}


@pytest.mark.parametrize(("state", "event"), [*itertools.product(State, Event)], ids=str)
def test_an_event_changes_what_is_written_here_and_nothing_else(state: State, event: Event) -> None:
    before = replace(BEFORE, state=state)
    if event is Event.CANCEL and state is State.TRANSITION:
        assert changes(before, event) == {"cancel_reason": "why"}
    elif (state, event) in EXPECTED:
        assert changes(before, event) == without_what_stays({**TOLD, **EXPECTED[state, event]}, before)
    else:
        with pytest.raises(Conflict, match=f"a noderole in {state} cannot {event}"):
            after(before, event, 9.0, "ann", "why")


@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        ("ACTIVE", "CLAIM", {"state": "TRANSITION", "attempt": 3}),
        ("ACTIVE", "WITHDRAW", {"state": "ACTIVE", "refresh": False}),
        ("ACTIVE", "PROPOSE", {"state": "PROPOSED", "refresh": False}),
        ("ACTIVE", "FAIL", {"state": "ERROR", "refresh": False}),
        (
            "ACTIVE",
            "NODE_DIED",
            {"state": "TODO", "checked": None, "refresh": False, "generation": 8, "not_before": 0.0},
        ),
        ("TRANSITION", "CLAIM", {"state": "TRANSITION"}),
        (
            "TRANSITION",
            "SUCCEED",
            {"state": "ACTIVE", "checked": None, "refresh": False, "attempt": 0, "not_before": 0.0, "once": "done"},
        ),
        ("TRANSITION", "FAIL", {"state": "ERROR", "refresh": False, "once": None}),
        ("TRANSITION", "DEFER", {"state": "TODO", "checked": None, "refresh": False, "generation": 8, "once": None}),
        ("TRANSITION", "LOSE", {"state": "TODO", "checked": None, "refresh": False, "generation": 8}),
    ],
)
def test_a_refresh_is_a_mark_that_a_run_takes_along_and_its_end_takes_away(
    state: str, event: str, expected: dict[str, Any]
) -> None:
    before = BEFORE.amended(state=State(state), refresh=True)
    assert changes(before, Event(event)) == without_what_stays({**TOLD, **expected}, before)


BACK = {"check": None, "run": "r5", "epoch": 1}  # what a check that was claimed gives back, however it ends


@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        ("ACTIVE", "CLAIM", {"state": "TRANSITION", "attempt": 3, "check": PendingCheck(since=1.0, run="r7", epoch=3)}),
        ("ACTIVE", "REFRESH", {"check": None, "generation": 8, "not_before": 0.0}),
        ("ACTIVE", "WITHDRAW", {"refresh": False, "check": None}),
        ("ACTIVE", "PROPOSE", {"state": "PROPOSED", "refresh": False, "check": None}),
        ("TRANSITION", "CLAIM", {}),
        ("TRANSITION", "CHECKED", {"state": "ACTIVE", "refresh": False, "attempt": 0, "since": 0.7, **BACK}),
        ("TRANSITION", "FAIL", {"state": "ERROR", "refresh": False, "once": None, **BACK}),
        ("TRANSITION", "LOSE", {"state": "TODO", "checked": None, "refresh": False, "generation": 8, **BACK}),
        (
            "TRANSITION",
            "NODE_DIED",
            {"state": "TODO", "checked": None, "refresh": False, "generation": 8, "not_before": 0.0, **BACK},
        ),
    ],
)
def test_a_check_ends_with_the_noderole_as_it_was(state: str, event: str, expected: dict[str, Any]) -> None:
    check = PendingCheck() if state == "ACTIVE" else PendingCheck(since=0.7, run="r5", epoch=1)
    before = BEFORE.amended(state=State(state), refresh=True, check=check)
    assert changes(before, Event(event)) == without_what_stays({**TOLD, **expected}, before)


@pytest.mark.parametrize("event", [Event.SUCCEED, Event.DEFER])
def test_a_check_is_no_success_and_is_not_put_off(event: Event) -> None:
    with pytest.raises(Conflict):
        after(BEFORE.amended(state=State.TRANSITION, refresh=True, check=PendingCheck()), event, 9.0)


def test_a_check_that_is_cancelled_ends_as_every_check() -> None:
    running = BEFORE.amended(state=State.TRANSITION, refresh=True, check=PendingCheck(run="r5", epoch=1))
    ended = after(after(running, Event.CANCEL, 8.0, reason="enough"), Event.CHECKED, 9.0)
    assert (ended.state, ended.cancel_reason, ended.run) == (State.ACTIVE, None, "r5")


def test_a_refresh_that_is_asked_for_during_a_check_follows_it_and_no_run_is_run_twice_for_it() -> None:
    check = PendingCheck(since=0.7, run="r5", epoch=1)
    running = BEFORE.amended(state=State.TRANSITION, refresh=True, check=check)
    asked = after(running, Event.REFRESH, 8.0)
    assert asked == running.amended(check=replace(check, refresh=True))
    assert renewing(asked)
    assert after(asked, Event.CLAIM, 8.5).check == asked.check, "also where another takes it over"
    ended = after(asked, Event.CHECKED, 9.0)
    assert (ended.state, ended.refresh, ended.check) == (State.ACTIVE, True, None)
    assert ended.generation == running.generation + 1, "its machine does not take it for the check"
    with pytest.raises(Conflict):
        after(running.amended(check=None), Event.REFRESH, 8.0)


def test_what_is_to_run_again_anyway_is_not_checked() -> None:
    with pytest.raises(Conflict):
        after(BEFORE.amended(state=State.ACTIVE, refresh=True), Event.CHECK, 9.0)


def test_only_the_end_of_a_run_that_is_to_be_ended_takes_that_away() -> None:
    before = BEFORE.amended(state=State.TRANSITION, cancel_reason="time is up")
    assert changes(before, Event.CLAIM) == TOLD
    assert changes(before, Event.FAIL) == {**TOLD, "state": "ERROR", "once": None, "cancel_reason": None}
    assert changes(before, Event.NODE_DIED) == {
        **TOLD, "state": "TODO", "checked": None, "generation": 8, "not_before": 0.0, "cancel_reason": None
    }  # fmt: skip


def changes(before: NodeRole, event: Event) -> dict[str, Any]:
    then = after(before, event, 9.0, "ann", "why")
    return {key: new for key in keys_of(NodeRole) if (new := getattr(then, key)) != getattr(before, key)}


def without_what_stays(expected: dict[str, Any], before: NodeRole) -> dict[str, Any]:
    return {key: value for key, value in expected.items() if value != getattr(before, key)}
