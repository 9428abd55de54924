"""What an annealer does for the run on a node while the world around it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event as Happened
from nodepool_ocb.engine.run import RunEvent, RunPhase
from nodepool_ocb.errors import Invalid, OcbError, Stale, TooLarge, Unavailable
from nodepool_ocb.jigs.jig import Failed, Succeeded, Unreachable
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Suspicion
from nodepool_ocb.model.records import Create, Former, Given, Node, NodeRole, Set, State
from nodepool_ocb_annealer.runs.attributes import Results
from nodepool_ocb_annealer.runs.conclusions import unkept
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.runs.claiming_annealer import Stage
from tests.annealer.test_feeding import among


def test_a_death_that_could_not_be_written_is_judged_again_before_it_is() -> None:
    """The node was written by another annealer, which reached the machine and took its suspicion back."""
    stage = Stage()
    stage.claimed()
    stage.world.put_node("n", Node(alive=True, suspicion=Suspicion(by="b", reason="no route", since=0.0)), 6)
    for _ in range(2):
        stage.end(RunEvent.UNREACHED, Unreachable("connect", "no route"))
    assert stage.context.asked == ["end of a@n"]
    stage.world.put_node("n", Node(alive=True), 7)
    stage.answer(Stale("it moved on", paths.node("n")))
    stage.executor.due("n")
    assert stage.context.asked == ["suspicion of n", "giving back a@n"]


def test_a_slot_is_given_back_while_an_outcome_that_was_refused_cannot_be_written() -> None:
    stage = Stage(among("a@n", "a@m"))
    stage.claimed()
    stage.context.claims.consider("m")
    assert stage.context.asked == [], "there is one slot"
    stage.end(RunEvent.ENDED, Failed("exit code 1"))
    stage.world.unreadable[paths.noderole("a", "n")] = "a hand has spoiled it"
    stage.answer(Stale("it moved on", paths.noderole("a", "n")))
    stage.executor.due("n")
    assert stage.context.asked == ["claim of a@m"]


def test_a_run_that_is_to_end_is_left_alone_when_the_session_is_over() -> None:
    """A slot's thread knows that before the turn thread does: both must not ask each other until it does."""
    stage = Stage()
    stage.claimed()
    stage.write(stage.attempt.grant.record.amended(cancel_reason="time is up"))
    stage.executor.look("n")
    assert stage.attempt.state.phase is RunPhase.CANCELLING
    stage.executor.stop()
    working: Any = stage.context.slots
    del working.start, working.end
    working._submit = lambda work: work() or True  # a thread that is done at once
    stage.end(RunEvent.LEFT, None)
    assert stage.attempt.state.phase is RunPhase.CANCELLING
    stage.executor.void()
    assert len(stage.executor) == 0


def test_a_claim_that_is_not_answered_yet_is_not_given_back() -> None:
    """It may be refused, and the claim that stands then, of the same epoch, is another's."""
    stage = Stage()
    stage.context.draining = stage.context.resting = True
    stage.executor.release()
    assert stage.context.asked == ["claim of a@n"]
    stage.claimed()
    assert (stage.context.asked, stage.dones) == (["giving back a@n"], [])
    stage.answer(None)
    assert len(stage.executor) == 0


def test_what_is_claimed_with_an_outcome_is_not_started_where_the_annealer_ends_meanwhile() -> None:
    stage = Stage(among("a@n", "b@n"))
    stage.claimed()
    stage.end(RunEvent.ENDED, Succeeded({}))
    stage.context.draining = stage.context.resting = True
    stage.executor.release()
    assert stage.answer(None) == "end of a@n"
    assert (stage.context.asked, stage.dones) == (["giving back b@n"], [])


@pytest.mark.parametrize("refused", [None, Unavailable("the connection broke")])
def test_a_node_whose_giving_back_has_no_answer_is_looked_at_again(refused: OcbError | None) -> None:
    """Its claim may stand, though nothing stands behind it."""
    stage = Stage()
    stage.claimed()
    stage.context.session.trusted = False
    stage.executor.release()
    stage.answer(refused)
    due = list(stage.context.timers.due(float("inf")))
    assert (Timer(TimerKind.CONSIDER, "n") in due) is (refused is not None)


def test_an_outcome_that_is_refused_for_whatever_reason_is_written_later_and_later() -> None:
    wall = paths.wall("a", "n")
    given = Stale("it moved on", paths.given("a", "n"))
    for refused in (Unavailable("the connection broke"), Invalid("it is too large"), Stale("it moved on", wall), given):
        stage = Stage()
        stage.context.slots.read_wall = lambda *_: False  # type: ignore[method-assign]  # no thread can be had
        stage.claimed()
        stage.end(RunEvent.ENDED, Failed("exit code 1"))
        waits: list[float] = []
        for _ in range(6):
            if stage.attempt.state.phase is RunPhase.WAITING:
                stage.executor.due("n")
            stage.answer(refused)
            waits.append(stage.attempt.state.wait_seconds)
        assert waits[-4:] == [0.08, 0.16, 0.32, 0.64], refused


def test_an_outcome_that_stays_too_large_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.claimed()
    stage.end(RunEvent.ENDED, Failed("exit code 1"))
    for _ in range(4):
        stage.answer(TooLarge(["it is larger than one transaction may be"]))
        stage.executor.due("n")
    assert stage.attempt.state.oversized == 4
    assert [record.levelname for record in caplog.records if "cannot be written" in record.message] == ["WARNING"]


def test_an_outcome_that_no_record_may_hold_ends_as_a_failure_without_it_or_gives_its_slot_back() -> None:
    stage = Stage(among("a@n", "a@m"))
    stage.claimed()
    stage.context.claims.consider("m")
    stage.end(RunEvent.ENDED, Failed("exit code 99999999999", 99999999999))
    stage.answer(Invalid("no Run can be written so"))
    assert stage.context.asked == ["end of a@n"]
    assert stage.attempt.conclusion is not None
    run = stage.attempt.conclusion.run
    assert (run.outcome, run.exit_code) == ("failed", None)
    assert "cannot be kept: no Run can be written so" in (run.reason or "")
    stage.answer(Invalid("nor so"))
    assert stage.context.asked == ["claim of a@m"], "the slot is free"
    stage.write(stage.attempt.grant.record.amended(cancel_reason="it hangs"))
    stage.executor.due("n")
    assert stage.attempt.conclusion.event is Happened.FAIL


@pytest.mark.parametrize("refused", [Invalid("no Run can be written so"), TooLarge(["it is too large"])])
def test_a_failure_in_place_of_an_outcome_that_cannot_be_kept_has_its_output(refused: Invalid) -> None:
    kept = unkept(Succeeded({"a": 1}, 0, "the end", Path("/runs/a.log")), refused)
    assert isinstance(kept, Failed)
    assert (kept.exit_code, kept.tail, kept.log) == (0, "the end", Path("/runs/a.log"))


def test_an_outcome_that_is_too_large_by_itself_gives_its_slot_back() -> None:
    stage = Stage(among("a@n", "a@m"))
    stage.claimed()
    stage.context.claims.consider("m")
    stage.end(RunEvent.ENDED, Failed("exit code 1"))
    for _ in range(2):
        stage.answer(TooLarge("it is larger than one transaction may be"))
    assert stage.context.asked == ["claim of a@m"]


NOTED = Former(given=6, changes=((("attributes", "a"), 0),))
GIVEN = Results((), [Create(paths.given("a", "n"), Given(jig="noop", attributes={"a": 1}))], 7, NOTED)


def test_what_a_run_was_given_is_written_with_its_end_in_one_transaction() -> None:
    stage = Stage()
    stage.claimed()
    stage.end(RunEvent.ENDED, Succeeded({}), results=GIVEN)
    assert stage.context.asked == ["end of a@n"]
    assert stage.attempt.conclusion is not None
    changes = {change.path: change for change in stage.attempt.conclusion.together()}
    written = changes[paths.noderole("a", "n")]
    assert isinstance(written, Set)
    assert isinstance(written.data, NodeRole)
    assert (written.data.state, written.data.given) == (State.ACTIVE, 7)
    assert changes[paths.given("a", "n")] == GIVEN.given[0]
    run = stage.attempt.conclusion.run
    assert (run.given, run.former) == (7, NOTED)


def test_where_there_was_nothing_to_run_the_run_notes_nothing() -> None:
    stage = Stage()
    stage.claimed()
    stage.end(RunEvent.ENDED, Succeeded({}), results=replace(GIVEN, instant=True))
    assert stage.attempt.conclusion is not None
    assert (stage.attempt.conclusion.run.given, stage.attempt.conclusion.run.former) == (0, None)


def test_a_run_that_failed_was_given_what_the_one_before_was() -> None:
    stage = Stage()
    stage.claimed()
    stage.end(RunEvent.ENDED, Failed("exit code 1"), results=GIVEN)
    assert stage.attempt.conclusion is not None
    assert [record.given for record in stage.attempt.conclusion.moved.values()] == [0]


def test_where_there_is_no_room_what_a_run_was_given_is_kept_as_its_number_alone_and_the_run_has_succeeded() -> None:
    stage = Stage()
    stage.claimed()
    stage.end(RunEvent.ENDED, Succeeded({}), results=GIVEN)
    for _ in range(3):
        stage.answer(TooLarge(["it is larger than one transaction may be"]))
        stage.executor.due("n")
    assert stage.attempt.conclusion is not None
    changes = {change.path: change for change in stage.attempt.conclusion.alone()}
    brief = Given(jig="noop", reason="there was no room to keep it")
    assert changes[paths.given("a", "n")] == Create(paths.given("a", "n"), brief)
    (record,) = stage.attempt.conclusion.moved.values()
    assert (record.state, record.given) == (State.ACTIVE, 7)


def test_what_is_kept_of_what_was_given_and_was_written_meanwhile_is_read_again() -> None:
    stage = Stage()
    asked: list[str] = []
    stage.context.slots.read_wall = lambda *_: bool(asked.append("read") or True)  # type: ignore[method-assign]
    stage.claimed()
    stage.end(RunEvent.ENDED, Succeeded({}), results=GIVEN)
    stage.answer(Stale("it moved on", paths.given("a", "n")))
    assert asked == ["read"]
