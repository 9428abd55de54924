"""What an annealer carries out at each turn of a run: orders, timers, transactions, records, and whom it blames."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import claim
from nodepool_ocb.engine.run import Do, RunEvent, RunPhase
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.jigs.jig import Failed, Party, Succeeded, Unknown, Unreachable
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Suspicion
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import Daemon, Node, Role, State
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer import claims
from nodepool_ocb_annealer.runs import executor
from nodepool_ocb_annealer.runs.attempts import Attempt
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.runs.claiming_annealer import NOW, Stage
from tests.annealer.test_feeding import among
from tests.engine.worlds import put, world

AGAIN = executor.AGAIN_SECONDS


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still: no wait depends on the load of the machine."""
    for module in (executor, claims):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: NOW, time=time.time))


def count(metric: Any, **labels: str) -> float:
    return float((metric.labels(**labels) if labels else metric)._value.get())


# -- orders --


def test_every_instruction_has_its_carrying_out() -> None:
    assert set(Stage().executor._carry_out) == set(Do)


def test_a_claim_that_is_written_starts_its_run_and_an_order_that_was_not_given_is_given_again_later() -> None:
    stage = Stage()
    assert (stage.asked, stage.orders, len(stage.executor)) == (["claim of a@n"], [], 1)
    stage.claimed()
    assert stage.orders == [("start", (0.0,))]
    stage.end(RunEvent.FAULT, Unknown("no thread"))
    assert stage.orders[1:] == [("start", (AGAIN,))]
    stage.end(RunEvent.UNREACHED, Unreachable("connect", "no route"))
    assert stage.orders[2:] == [("start", (AGAIN,))]
    stage.end(RunEvent.UNREAD, None)
    assert stage.orders[3:] == [("start", (AGAIN,))]


def test_a_run_that_is_to_be_cancelled_is_left_alone_and_then_ended() -> None:
    stage = Stage().claimed()
    stage.cancel()
    assert (stage.attempt.stop.is_set(), stage.attempt.gone.is_set()) == (True, False)
    stage.end(RunEvent.LEFT, None)
    assert stage.orders[1:] == [("end", ("time is up", 0.0))]
    stage.end(RunEvent.FAULT, Unknown("no thread"))
    assert stage.orders[2:] == [("end", ("time is up", AGAIN))]
    stage.end(RunEvent.UNREACHED, Unreachable("connect", "no route"))
    assert stage.orders[3:] == [("end", ("time is up", AGAIN))]
    stage.end(RunEvent.ENDED, Failed("it was ended"))
    found = stage.written()
    assert (found.state, found.reason, found.by) == (State.ERROR, "time is up", "a")


def test_a_claim_that_is_refused_is_tried_later_and_its_slot_is_free() -> None:
    stage = Stage()
    assert not stage.context.slots.free
    stage.answer(Unavailable("no connection"))
    assert (len(stage.executor), stage.context.slots.free, stage.orders) == (0, True, [])
    waits = stage.waits()
    assert 0.3 < waits[Timer(TimerKind.CONSIDER, "n")] <= 0.5


# -- blame --


def test_a_node_at_which_this_host_failed_twice_is_left_to_others(caplog: pytest.LogCaptureFixture) -> None:
    stage, before = Stage().claimed(), count(metrics.HOST_FAULTS)
    stage.end(RunEvent.FAULT, Unknown("the disk is full"), begun=True)
    assert stage.left_alone() is None
    with caplog.at_level(logging.WARNING, executor.log.name):
        stage.end(RunEvent.FAULT, Unknown("the disk is full"), begun=True)
    assert stage.asked == ["giving back a@n"]
    assert stage.changes[-1] == claim.leaving(stage.attempt.grant, "the disk is full")
    assert [each.getMessage() for each in caplog.records] == ["a@n is left to others: the disk is full"]
    assert count(metrics.HOST_FAULTS) == before + 1
    assert 1.9 < (stage.left_alone() or 0.0) <= 2.0
    assert stage.context.claims._faults._row == {"n": "n"}
    assert (stage.attempt.gone.is_set(), stage.attempt.stop.is_set()) == (True, True)
    stage.answer(None)
    assert (len(stage.executor), stage.context.slots.free) == (0, True)


@pytest.mark.parametrize(
    ("fields", "faults", "row"),
    [({"recorded": True}, 1, {"n": "a"}), ({"foreign": True}, 0, {}), ({}, 1, {"n": "n"})],
)
def test_the_party_at_fault_is_noted(fields: dict[str, Any], faults: int, row: dict[str, str]) -> None:
    stage, before = Stage().claimed(), count(metrics.HOST_FAULTS)
    for _ in range(2):
        stage.end(RunEvent.FAULT, Unknown("it raised"), begun=True, **fields)
    assert count(metrics.HOST_FAULTS) - before == faults
    assert stage.context.claims._faults._row == row
    assert stage.left_alone() is not None


def test_a_fault_of_reaching_machines_is_told_to_the_judge_of_this_host() -> None:
    stage = Stage().claimed()
    noted: list[tuple[Any, ...]] = []
    judging: Any = stage.context.judging
    judging.unfit = lambda fqdn, reason, lacking, certain: noted.append((fqdn, reason, lacking, certain))
    for _ in range(2):
        stage.end(RunEvent.FAULT, Unknown("no descriptors", reaching=True), begun=True)
    assert noted == [("n", "no descriptors", False, True)]
    assert stage.context.claims._faults._row == {}
    assert 1.9 < (stage.left_alone() or 0.0) <= 2.0


# -- machines that do not answer --


def unreached(stage: Stage, outcome: Unreachable | None = None) -> None:
    for _ in range(2):
        stage.end(RunEvent.UNREACHED, outcome or Unreachable("connect", "no route"), begun=True)


def seen(stage: Stage, **fields: Any) -> None:
    stage.world.put_node("n", Node(**{"alive": True, **fields}), 6)


def other(stage: Stage, **fields: Any) -> None:
    record = Daemon(**{"host": "h", "pid": 1, "version": "0", "started": 0.0, **fields})
    stage.world.put(Stored(record, 0), "annealer", "b")


SUSPICION = Suspicion(by="b", reason="no route", since=0.0)


def test_a_machine_that_one_annealer_does_not_reach_is_suspected_and_left_to_others() -> None:
    stage = Stage().claimed()
    unreached(stage)
    assert stage.asked == ["suspicion of n", "giving back a@n"]
    assert stage.changes[-1] == claim.leaving(stage.attempt.grant, stage.attempt.answer.reason)
    assert stage.left_alone() is not None
    assert stage.context.claims._faults._row == {}


@pytest.mark.parametrize(
    ("node", "annealer", "party", "dead"),
    [
        ({"suspicion": SUSPICION}, {}, Party.MACHINE, True),
        ({"suspicion": SUSPICION}, {"trouble": "no key"}, Party.MACHINE, True),
        ({"suspicion": SUSPICION}, {"trouble": "no key"}, Party.PATH, False),
        ({"suspicion": SUSPICION}, {"host": "elsewhere"}, Party.PATH, True),
        ({"suspicion": SUSPICION}, {"host": "h"}, Party.PATH, False),
        ({}, {"state": "draining"}, Party.MACHINE, True),
        ({}, {}, Party.MACHINE, False),
        ({"alive": False}, {}, Party.MACHINE, True),
        ({"available": False}, {}, Party.MACHINE, True),
    ],
)
def test_a_machine_is_dead_by_agreement(
    node: dict[str, Any], annealer: dict[str, Any], party: Party, dead: bool
) -> None:
    stage = Stage().claimed()
    seen(stage, **node)
    other(stage, **annealer)
    unreached(stage, Unreachable("connect", "no route", party=party))
    assert ("end of a@n" in stage.asked) is dead
    assert ("giving back a@n" in stage.asked) is not dead


def test_a_machine_that_refuses_the_key_of_the_only_annealer_may_be_well() -> None:
    made = among("a@n", "a@m")
    stage = Stage(made).claimed()
    for fqdn in ("n", "m"):
        made.put_node(fqdn, Node(alive=True, addresses=("192.0.2.1",)), 6)
    other(stage, state="draining")
    unreached(stage, Unreachable("authenticate", "the key is refused"))
    assert stage.context.judging.standing._refusing.keys() == {"n"}


# -- ends --


@pytest.mark.parametrize("refused", [Unavailable("no connection"), Stale("it moved on", paths.fence("n"))])
def test_an_end_that_is_refused_has_a_timer(refused: OcbError) -> None:
    stage = Stage().claimed()
    stage.end(RunEvent.ENDED, Failed("exit code 1"))
    assert stage.asked == ["end of a@n"]
    stage.answer(refused)
    assert stage.attempt.state.phase is RunPhase.WAITING
    wait = stage.waits()[Timer(TimerKind.WRITE_END, "n")]
    assert 0.0 < wait <= stage.attempt.state.wait_seconds == 0.02
    stage.executor.due("n")
    assert stage.asked == ["end of a@n"]


def test_an_end_that_is_written_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage().claimed()
    runs, failures = count(metrics.RUNS, jig="noop", outcome="failed"), count(metrics.TRANSITIONS, event="FAIL")
    answered: list[str] = []
    judging: Any = stage.context.judging
    judging.answered = lambda view: answered.append(view.name)
    stage.context.claims._faults.unreached("n", NOW)
    stage.end(RunEvent.ENDED, Failed("exit code 1"))
    stage.write(stage.written())
    with caplog.at_level(logging.WARNING, executor.log.name):
        stage.answer(None)
    assert [each.getMessage() for each in caplog.records] == ["a@n is in ERROR: exit code 1"]
    assert count(metrics.RUNS, jig="noop", outcome="failed") == runs + 1
    assert count(metrics.TRANSITIONS, event="FAIL") == failures + 1
    assert (stage.tidied, answered) == ([("a@n", True)], ["n"])
    assert stage.left_alone() is None, "the host can work on it"
    assert (len(stage.executor), stage.context.slots.free) == (0, True)


def test_the_answer_of_a_jig_that_does_not_attach_says_nothing_of_the_machine() -> None:
    stage = Stage().claimed()
    stage.context.jigs["noop"].attaches = False
    answered: list[str] = []
    judging: Any = stage.context.judging
    judging.answered = lambda view: answered.append(view.name)
    stage.end(RunEvent.ENDED, Succeeded({}))
    stage.answer(None)
    assert answered == []


def test_a_machine_that_died_in_a_run_is_told_and_not_well(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage().claimed()
    seen(stage, suspicion=SUSPICION)
    stage.context.claims._faults.unreached("n", NOW)
    unreached(stage)
    with caplog.at_level(logging.WARNING, executor.log.name):
        stage.answer(None)
    assert [each.getMessage() for each in caplog.records] == ["n is not alive: connect: no route"]
    assert stage.left_alone() is not None


def test_a_run_that_the_state_machine_does_not_let_end_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage().claimed()
    stage.write(replace(stage.attempt.grant.record, state=State.PROPOSED))
    with caplog.at_level(logging.ERROR, executor.log.name):
        stage.end(RunEvent.ENDED, Succeeded({}))
    assert len(stage.executor) == 0
    assert "end of a@n" not in stage.asked


# -- the next on the same node --


def two(instant: bool = False) -> Stage:
    made = among("a@n", "b@n")
    stage = Stage(made)
    if instant:
        stage.context.slots._instant_jigs = frozenset({"noop"})
    return stage.claimed()


def test_an_end_claims_the_next_noderole_of_the_node_in_one_transaction() -> None:
    stage = two()
    stage.end(RunEvent.ENDED, Succeeded({}))
    assert stage.asked == ["end of a@n"]
    following = stage.attempt.following
    assert isinstance(following, Attempt)
    assert (following.name, following.session) == ("b@n", stage.attempt.session)
    assert stage.written(paths.noderole("a", "n")).state is State.ACTIVE
    assert stage.written(paths.noderole("b", "n")).state is State.TRANSITION
    orders = len(stage.orders)
    stage.answer(None)
    assert stage.executor._attempts["n"] is following
    assert (following.slot, stage.attempt.slot, stage.context.slots._busy) == (True, False, 1)
    assert stage.orders[orders:] == [("start", (0.0,))]


def test_a_failure_an_annealer_that_rests_and_one_without_a_slot_claim_nothing_more() -> None:
    for case in ("failure", "resting", "no slot"):
        stage = two()
        if case == "resting":
            stage.context.resting = True
        if case == "no slot":
            stage.attempt.slot = False
        stage.end(RunEvent.ENDED, Failed("exit code 1") if case == "failure" else Succeeded({}))
        assert stage.attempt.following is None, case
        assert paths.noderole("b", "n") not in {change.path for change in stage.changes[-1]}, case
        assert stage.attempt.conclusion is not None
        assert stage.changes[-1] == stage.attempt.conclusion.together(), case


def test_a_next_noderole_that_cannot_be_claimed_keeps_no_end_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = two()

    def refused(*_: object) -> None:
        raise executor.Conflict("the view is not whole")

    monkeypatch.setattr(claim, "passing_on", refused)
    stage.end(RunEvent.ENDED, Succeeded({}))
    assert stage.attempt.following is None
    assert stage.written(paths.noderole("a", "n")).state is State.ACTIVE


def test_noderoles_without_anything_to_run_are_completed_with_an_end() -> None:
    stage = two(instant=True)
    done: list[Any] = []
    stage.context.claims.inline_completed = done.append  # type: ignore[method-assign]
    stage.end(RunEvent.ENDED, Succeeded({}))
    assert stage.written(paths.noderole("a", "n")).state is State.ACTIVE
    assert stage.written(paths.noderole("b", "n")).state is State.ACTIVE
    batch = stage.attempt.following
    for name in ("a", "b"):
        stage.world.put_noderole("n", name, stage.written(paths.noderole(name, "n")), 9)
    stage.answer(None)
    assert done == [batch]
    assert batch is not None
    assert len(stage.executor) == 0


# -- giving back --


def test_an_annealer_that_ends_gives_back_the_nodes_and_leaves_the_runs_alone() -> None:
    stage = Stage().claimed()
    stage.context.resting = True
    stage.executor.release()
    assert stage.asked == ["giving back a@n"]
    assert stage.changes[-1] == claim.releasing(stage.attempt.grant)
    assert (stage.attempt.gone.is_set(), stage.attempt.stop.is_set()) == (True, True)
    stage.answer(Unavailable("no connection"))
    assert AGAIN - 0.1 < stage.waits()[Timer(TimerKind.CONSIDER, "n")] <= AGAIN
    assert (len(stage.executor), stage.context.slots.free) == (0, True)


@pytest.mark.parametrize(("own", "pause"), [(True, 0.0), (False, 1.0)])
def test_a_run_that_cannot_be_prepared_goes_back_as_if_it_was_not_claimed(own: bool, pause: float) -> None:
    stage = Stage().claimed()
    attempts = stage.attempt.grant.record.attempt
    stage.end(RunEvent.SEALED, Unknown("no key for secret db", begun=False), own=own)
    found = stage.written()
    assert (found.state, found.attempt, found.reason) == (State.TODO, attempts - 1, "no key for secret db")
    assert (found.not_before > 1.0) is (pause > 0.0)
    assert stage.attempt.pause_seconds == (0.0 if own else found.not_before - 1.0)


def test_a_run_that_was_not_begun_goes_back_with_a_reason_where_its_annealer_ends() -> None:
    made = among("a@n")
    made.put(Stored(Role(barclamp="b", jig="noop", flags=("destructive",)), 1), "a")
    stage = Stage(made)
    stage.context.resting = True
    stage.executor.release()
    stage.claimed()
    assert stage.orders == []
    found = stage.written()
    assert (found.state, found.reason, found.not_before) == (State.TODO, "its annealer ended before it began", 0.0)


def test_attributes_that_cannot_be_read_are_told_and_the_run_goes_back() -> None:
    stage = Stage().claimed()
    noted: list[tuple[str, str]] = []
    stage.context.spoiled = lambda path, reason: noted.append((path, reason))  # type: ignore[method-assign]
    stage.end(RunEvent.SPOILED, Unknown("no JSON"), spoiled=paths.user("a", "n"))
    assert noted == [(paths.user("a", "n"), "no JSON")]
    assert stage.tidied == [("a@n", True)]
    assert stage.asked == ["giving back a@n"]


def test_a_session_that_is_over_ends_all_without_a_write(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage().claimed()
    stage.executor._recorded.add("r1")
    with caplog.at_level(logging.WARNING, executor.log.name):
        stage.executor.void()
    assert (len(stage.executor), stage.asked, stage.executor._recorded) == (0, [], set())
    assert stage.attempt.gone.is_set()
    assert "a@n: the session that claimed it is over" in caplog.text


# -- what is kept of a run --


@pytest.mark.parametrize(
    ("flags", "once", "check", "destructive"),
    [
        ((), None, None, False),
        (("destructive",), None, None, True),
        ((), "started", None, True),
        ((), "done", None, False),
        (("destructive",), "started", PendingCheck(), False),
    ],
)
def test_a_run_is_destructive_by_its_role_or_its_record_and_a_check_never(
    flags: tuple[str, ...], once: str | None, check: PendingCheck | None, destructive: bool
) -> None:
    made = world()
    vertex = put(made, "a@n", State.TODO)
    grant = claim.take(made, vertex, "a", "r1", 1.0)
    grant = replace(grant, record=grant.record.amended(once=once, check=check, refresh=check is not None))
    jigs: Any = {"noop": SimpleNamespace(attaches=True), "blind": SimpleNamespace(attaches=False)}
    attempt = Attempt(grant, Role(barclamp="b", jig="noop", flags=flags), 7, jigs)
    state = attempt.state
    assert (state.destructive, state.attaches, state.other_jig) == (destructive, True, False)
    assert (state.takeover, state.refresh, attempt.checking) == (False, check is not None, check is not None)
    assert (attempt.session, attempt.jig, attempt.name, attempt.fqdn) == (7, "noop", "a@n", "n")
    assert (attempt.pause_seconds, attempt.slot, attempt.answer.event) == (0.0, False, RunEvent.LEFT)


def test_a_run_is_asked_about_by_the_jig_that_it_was_ordered_with() -> None:
    made = world()
    grant = claim.take(made, put(made, "a@n", State.TODO), "a", "r1", 1.0)
    jigs: Any = {"noop": SimpleNamespace(attaches=True), "blind": SimpleNamespace(attaches=False)}
    attempt = Attempt(replace(grant, jig="blind", previous_epoch=3), Role(barclamp="b", jig="noop"), 7, jigs)
    assert (attempt.jig, attempt.state.attaches, attempt.state.other_jig) == ("blind", False, True)
    assert attempt.state.takeover
