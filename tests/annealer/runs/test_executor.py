"""What an annealer does for the run on a node while the world around it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import Event as Happened
from nodepool_ocb.engine.run import Event, Phase
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Invalid, OcbError, Stale, TooLarge, Unavailable
from nodepool_ocb.jigs.jig import Failed, Outcome, Succeeded, Unreachable
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Suspicion
from nodepool_ocb.model.records import Create, Daemon, Former, Given, Node, NodeRole, Set, State
from nodepool_ocb_annealer.runs.attempts import Answer, Attempt
from nodepool_ocb_annealer.runs.attributes import Results
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.test_feeding import Context, among


class Story:
    """An annealer that has claimed a@n, beside another one, b. What its slot is asked waits for an answer."""

    def __init__(self, made: World | None = None) -> None:
        self.world = made or among("a@n")
        self.world.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0), 0), "annealer", "b")
        self.context = Context(self.world, instant=False)
        self.held = self.context.claims.executor
        self.slot: list[Callable[[Answer], None]] = []
        working: Any = self.context.slots
        working.start = working.end = lambda *given: self.slot.append(next(each for each in given if callable(each)))
        self.context.claims.consider("n")
        self.attempt: Attempt = self.held._attempts["n"]

    def claim(self) -> None:
        """The claim is written."""
        self.write(self.attempt.grant.record)
        self.world.put_fence("n", self.attempt.grant.fence)
        self.answer(None)

    def write(self, record: Any) -> None:
        vertex = self.attempt.grant.vertex
        self.world.put_noderole("n", vertex.role, record, vertex.version + 1)

    def answer(self, refused: OcbError | None) -> str:
        """To what was sent last; gives what that was."""
        what, then = self.context.sent.pop()
        then(refused)
        return what

    def end(self, event: Event, outcome: Outcome | None, **fields: Any) -> None:
        """The slot answers."""
        self.slot.pop()(Answer(event, outcome, 1.0, **fields))


def test_a_death_that_could_not_be_written_is_judged_again_before_it_is() -> None:
    """The node was written by another annealer, which reached the machine and took its suspicion back."""
    story = Story()
    story.claim()
    story.world.put_node("n", Node(alive=True, suspicion=Suspicion(by="b", reason="no route", since=0.0)), 6)
    for _ in range(2):
        story.end(Event.UNREACHED, Unreachable("connect", "no route"))
    assert story.context.asked == ["end of a@n"]
    story.world.put_node("n", Node(alive=True), 7)
    story.answer(Stale("it moved on", paths.node("n")))
    story.held.due("n")
    assert story.context.asked == ["suspicion of n", "giving back a@n"]


def test_a_slot_is_given_back_while_an_outcome_that_was_refused_cannot_be_written() -> None:
    story = Story(among("a@n", "a@m"))
    story.claim()
    story.context.claims.consider("m")
    assert story.context.asked == [], "there is one slot"
    story.end(Event.ENDED, Failed("exit code 1"))
    story.world.unreadable[paths.noderole("a", "n")] = "a hand has spoiled it"
    story.answer(Stale("it moved on", paths.noderole("a", "n")))
    story.held.due("n")
    assert story.context.asked == ["claim of a@m"]


def test_a_run_that_is_to_end_is_left_alone_when_the_session_is_over() -> None:
    """A slot's thread knows that before the turn thread does: both must not ask each other until it does."""
    story = Story()
    story.claim()
    story.write(replace(story.attempt.grant.record, cancel_reason="time is up"))
    story.held.look("n")
    assert story.attempt.state.phase is Phase.CANCELLING
    story.held.stop()
    working: Any = story.context.slots
    del working.start, working.end
    working._submit = lambda work: work() or True  # a thread that is done at once
    story.end(Event.LEFT, None)
    assert story.attempt.state.phase is Phase.CANCELLING
    story.held.void()
    assert len(story.held) == 0


def test_a_claim_that_is_not_answered_yet_is_not_given_back() -> None:
    """It may be refused, and the claim that stands then, of the same epoch, is another's."""
    story = Story()
    story.context.draining = story.context.resting = True
    story.held.release()
    assert story.context.asked == ["claim of a@n"]
    story.claim()
    assert (story.context.asked, story.slot) == (["giving back a@n"], [])
    story.answer(None)
    assert len(story.held) == 0


def test_what_is_claimed_with_an_outcome_is_not_started_where_the_annealer_ends_meanwhile() -> None:
    story = Story(among("a@n", "b@n"))
    story.claim()
    story.end(Event.ENDED, Succeeded({}))
    story.context.draining = story.context.resting = True
    story.held.release()
    assert story.answer(None) == "end of a@n"
    assert (story.context.asked, story.slot) == (["giving back b@n"], [])


@pytest.mark.parametrize("refused", [None, Unavailable("the connection broke")])
def test_a_node_whose_giving_back_has_no_answer_is_looked_at_again(refused: OcbError | None) -> None:
    """Its claim may stand, though nothing stands behind it."""
    story = Story()
    story.claim()
    story.context.session.trusted = False
    story.held.release()
    story.answer(refused)
    due = list(story.context.timers.due(float("inf")))
    assert (Timer(TimerKind.CONSIDER, "n") in due) is (refused is not None)


def test_an_outcome_that_is_refused_for_whatever_reason_is_written_later_and_later() -> None:
    wall = paths.wall("a", "n")
    given = Stale("it moved on", paths.given("a", "n"))
    for refused in (Unavailable("the connection broke"), Invalid("it is too large"), Stale("it moved on", wall), given):
        story = Story()
        story.context.slots.read_wall = lambda *_: False  # type: ignore[method-assign]  # no thread can be had
        story.claim()
        story.end(Event.ENDED, Failed("exit code 1"))
        waits: list[float] = []
        for _ in range(6):
            if story.attempt.state.phase is Phase.WAITING:
                story.held.due("n")
            story.answer(refused)
            waits.append(story.attempt.state.wait_seconds)
        assert waits[-4:] == [0.08, 0.16, 0.32, 0.64], refused


def test_an_outcome_that_stays_too_large_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    story = Story()
    story.claim()
    story.end(Event.ENDED, Failed("exit code 1"))
    for _ in range(4):
        story.answer(TooLarge(["it is larger than one transaction may be"]))
        story.held.due("n")
    assert story.attempt.state.oversized == 4
    assert [record.levelname for record in caplog.records if "cannot be written" in record.message] == ["WARNING"]


def test_an_outcome_that_no_record_may_hold_ends_as_a_failure_without_it_or_gives_its_slot_back() -> None:
    story = Story(among("a@n", "a@m"))
    story.claim()
    story.context.claims.consider("m")
    story.end(Event.ENDED, Failed("exit code 99999999999", 99999999999))
    story.answer(Invalid("no Run can be written so"))
    assert story.context.asked == ["end of a@n"]
    assert story.attempt.conclusion is not None
    run = story.attempt.conclusion.run
    assert (run.outcome, run.exit_code) == ("failed", None)
    assert "cannot be kept: no Run can be written so" in (run.reason or "")
    story.answer(Invalid("nor so"))
    assert story.context.asked == ["claim of a@m"], "the slot is free"
    story.write(replace(story.attempt.grant.record, cancel_reason="it hangs"))
    story.held.due("n")
    story.context.asked.reverse()
    assert story.attempt.conclusion.event is Happened.FAIL


def test_an_outcome_that_is_too_large_by_itself_gives_its_slot_back() -> None:
    story = Story(among("a@n", "a@m"))
    story.claim()
    story.context.claims.consider("m")
    story.end(Event.ENDED, Failed("exit code 1"))
    for _ in range(2):
        story.answer(TooLarge("it is larger than one transaction may be"))
    assert story.context.asked == ["claim of a@m"]


NOTED = Former(given=6, changes=((("attributes", "a"), 0),))
GIVEN = Results((), [Create(paths.given("a", "n"), Given(jig="noop", attributes={"a": 1}))], 7, NOTED)


def test_what_a_run_was_given_is_written_with_its_end_in_one_transaction() -> None:
    story = Story()
    story.claim()
    story.end(Event.ENDED, Succeeded({}), results=GIVEN)
    assert story.context.asked == ["end of a@n"]
    assert story.attempt.conclusion is not None
    changes = {change.path: change for change in story.attempt.conclusion.together()}
    written = changes[paths.noderole("a", "n")]
    assert isinstance(written, Set)
    assert isinstance(written.data, NodeRole)
    assert (written.data.state, written.data.given) == (State.ACTIVE, 7)
    assert changes[paths.given("a", "n")] == GIVEN.given[0]
    run = story.attempt.conclusion.run
    assert (run.given, run.former) == (7, NOTED)


def test_where_there_was_nothing_to_run_the_run_notes_nothing() -> None:
    story = Story()
    story.claim()
    story.end(Event.ENDED, Succeeded({}), results=replace(GIVEN, instant=True))
    assert story.attempt.conclusion is not None
    assert (story.attempt.conclusion.run.given, story.attempt.conclusion.run.former) == (0, None)


def test_a_run_that_failed_was_given_what_the_one_before_was() -> None:
    story = Story()
    story.claim()
    story.end(Event.ENDED, Failed("exit code 1"), results=GIVEN)
    assert story.attempt.conclusion is not None
    assert [record.given for record in story.attempt.conclusion.moved.values()] == [0]


def test_where_there_is_no_room_what_a_run_was_given_is_kept_as_its_number_alone_and_the_run_has_succeeded() -> None:
    story = Story()
    story.claim()
    story.end(Event.ENDED, Succeeded({}), results=GIVEN)
    for _ in range(3):
        story.answer(TooLarge(["it is larger than one transaction may be"]))
        story.held.due("n")
    assert story.attempt.conclusion is not None
    changes = {change.path: change for change in story.attempt.conclusion.alone()}
    brief = Given(jig="noop", reason="there was no room to keep it")
    assert changes[paths.given("a", "n")] == Create(paths.given("a", "n"), brief)
    (record,) = story.attempt.conclusion.moved.values()
    assert (record.state, record.given) == (State.ACTIVE, 7)


def test_what_is_kept_of_what_was_given_and_was_written_meanwhile_is_read_again() -> None:
    story = Story()
    asked: list[str] = []
    story.context.slots.read_wall = lambda *_: bool(asked.append("read") or True)  # type: ignore[method-assign]
    story.claim()
    story.end(Event.ENDED, Succeeded({}), results=GIVEN)
    story.answer(Stale("it moved on", paths.given("a", "n")))
    assert asked == ["read"]
