"""One run of a noderole, from the claim of its node to the node given back: one table (docs/runs.md).

An annealer holds a node while it works on one of its noderoles. What it does next depends on nothing but the ``RunState`` and the
``Event`` that it hears: ``step`` gives the state that follows and the instructions to carry out, in order. The annealer
carries out; it decides nothing.

The rules, in prose:

- Nothing is ordered from a machine before the claim is written, and nothing after the node is given back. A node is not
  given back before either: where the claim is refused, the one that stands is another's, of the same epoch.
- After an order, only an outcome that is *known* ends a run. What this host fails at is asked for once more, then left to
  another annealer, with the noderole in TRANSITION; a machine that does not answer is dead by agreement alone, as it
  stands when that is written.
- A run that is to be cancelled is left alone by its jig first. Then the machine is told to end it, and only when nothing
  of it is left there is its noderole written as failed.
- An outcome is kept until it is written, or the noderole has moved on without this run.
- What was certainly not begun goes back as if it had never been claimed, where its role must not run twice.
- When the session is lost, everything that was held is void at once: nothing more is written for it.

Of the rules for one phase and event the first whose condition holds is taken. A pair that is not in the table changes
nothing: it comes too late, or its answer is still under way. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

ASKED: Final = 2  # times, before a machine that does not answer is judged, and a node goes back that this host fails at
FIRST_AGAIN_SECONDS: Final = 0.01  # for an outcome that was refused; doubles
LONGEST_AGAIN_SECONDS: Final = 5.0
MOST_DOUBLINGS: Final = 10


class Phase(StrEnum):
    """Where a run is."""

    CLAIMING = "CLAIMING"  # the claim is sent, and not answered
    RUNNING = "RUNNING"  # its jig has the order, or is about to get it
    CANCELLING = "CANCELLING"  # it is to end: its jig leaves it alone, then the machine ends it
    REPORTING = "REPORTING"  # its outcome is known, and sent to be written
    WAITING = "WAITING"  # its outcome is known, and cannot be written now
    RELEASING = "RELEASING"  # the node is being given back; what was begun goes on
    OVER = "OVER"  # nothing of it is held any more


class Event(StrEnum):
    """What an annealer can hear of a run."""

    CLAIMED = "CLAIMED"  # the claim is written
    REFUSED = "REFUSED"  # the claim, or the outcome, was not written
    CANCEL = "CANCEL"  # its noderole says that it is to be cancelled
    SUPERSEDED = "SUPERSEDED"  # its noderole, or its node, went on without it
    LEFT = "LEFT"  # the jig has left the run alone, as it was told to
    UNREAD = "UNREAD"  # ZooKeeper did not give its attributes; nothing was ordered
    SPOILED = "SPOILED"  # its attributes cannot be decoded; nothing was ordered
    FAULT = "FAULT"  # this host failed while it asked the machine: the outcome is not known
    UNREACHED = "UNREACHED"  # the machine does not answer
    DOUBTED = "DOUBTED"  # ... and others have not looked yet, or it is this host's own fault
    DEAD = "DEAD"  # ... and is dead by agreement
    ENDED = "ENDED"  # its outcome is known
    WRITTEN = "WRITTEN"  # the outcome is written, and the node is given back
    PASSED_ON = "PASSED_ON"  # the outcome is written, and the node is claimed for its next noderole
    TOO_LARGE = "TOO_LARGE"  # the outcome is more than one transaction may hold
    WALL_CHANGED = "WALL_CHANGED"  # the outcome was refused: somebody wrote the noderole's attributes meanwhile
    READ = "READ"  # those are read, and the outcome goes on top of them
    DUE = "DUE"  # the appointment to write the outcome again has come
    RELEASED = "RELEASED"  # the answer to giving the node back, whatever it is
    DRAINED = "DRAINED"  # the annealer ends, and its time to wait for runs is over
    NOT_ALLOWED = "NOT_ALLOWED"  # the state machine of noderoles refuses the outcome
    SESSION_LOST = "SESSION_LOST"  # the session that made the claim is over


class Do(StrEnum):
    """What an annealer is to do."""

    START = "START"  # give the jig its order, in a slot
    AGAIN = "AGAIN"  # the same after a second
    STOP = "STOP"  # tell the jig to leave the run alone
    CANCEL = "CANCEL"  # have what runs on the machine ended
    CANCEL_AGAIN = "CANCEL_AGAIN"  # the same after a second
    LOSE = "LOSE"  # hear that it ENDED: nobody can know how
    JUDGE = "JUDGE"  # find out whether the machine is dead by agreement: hear DEAD or DOUBTED
    WRITE = "WRITE"  # write the outcome; with it claim the next noderole of the node, if there is one
    WRITE_ALONE = "WRITE_ALONE"  # write the outcome without any neighbour
    WRITE_FAILURE = "WRITE_FAILURE"  # write that what it gave back is too large
    READ_WALL = "READ_WALL"  # read the attributes that somebody wrote meanwhile
    WAIT = "WAIT"  # make an appointment to write again
    RECORD = "RECORD"  # count the run, and tidy after it
    HAND_OVER = "HAND_OVER"  # go on with the noderole that was claimed with the outcome, in the same slot
    LET_GO = "LET_GO"  # tell the jig that the node is not ours any more
    QUARANTINE = "QUARANTINE"  # claim nothing that sees the spoiled attributes until they are mended
    BLAME_HOST = "BLAME_HOST"  # hold it against this host
    BLAME_LINK = "BLAME_LINK"  # hold it against the way from this host to the machine
    PUT_BACK = "PUT_BACK"  # give the node back, and the noderole as if it had not been claimed
    LEAVE = "LEAVE"  # give the node back, with a word in the noderole on why
    RELEASE = "RELEASE"  # give the node back
    VACATE = "VACATE"  # give the slot back
    FORGET = "FORGET"  # tell the jig that the node is not ours any more, forget the run, and give its slot back
    FEED = "FEED"  # look at nodes that wait for a slot
    CLAIM_LATER = "CLAIM_LATER"  # claim the noderole again after a while
    LOOK = "LOOK"  # look at the node again: delete a claim that nothing stands behind, claim what may start


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as far as decisions depend on it. The first block never changes."""

    takeover: bool = False  # of a run that another claim began
    refresh: bool = False  # its children do not wait for it, and would if it were put back
    destructive: bool = False  # it must not be done twice, not even in part
    attaches: bool = True  # its jig, asked again, finds the run that goes on
    other_jig: bool = False  # it was ordered with another jig than its role has now

    phase: Phase = Phase.CLAIMING
    cancel_reason: str | None = None
    ordered: bool = False  # the jig was given its order
    begun: bool = False  # ... and may have begun with it
    returned: bool = False  # its outcome brings attributes to be written
    hidden: bool = False  # its noderole's record cannot be read
    drained: bool = False  # the annealer was ending before the claim was answered
    faults: int = 0  # of this host
    unreached: int = 0
    refusals: int = 0  # of its outcome
    oversized: int = 0  # refusals of its outcome as too large
    deaths: int = 0  # that its machine was found dead by agreement

    @property
    def untouched(self) -> bool:
        """Whether it was certainly not begun, and may go back as if it had not been claimed."""
        return not (self.begun or self.takeover or self.refresh or self.cancel_reason)

    @property
    def wait_seconds(self) -> float:
        """Until its outcome is to be written again."""
        doublings = MOST_DOUBLINGS if self.hidden else min(self.refusals + self.oversized, MOST_DOUBLINGS)
        return min(FIRST_AGAIN_SECONDS * 2.0**doublings, LONGEST_AGAIN_SECONDS)


# -- conditions; the docstring of each stands in docs/runs.md --


def cancelled(run: RunState) -> bool:
    """it is to be cancelled"""
    return run.cancel_reason is not None


def drained(run: RunState) -> bool:
    """the annealer ends"""
    return run.drained


def drained_untouched_once(run: RunState) -> bool:
    """the annealer ends, it was certainly not begun, and its role must not run twice"""
    return run.drained and untouched_once(run)


def other_jig(run: RunState) -> bool:
    """it was ordered with a jig that its role has no more"""
    return run.other_jig


def unrepeatable(run: RunState) -> bool:
    """its role must not run twice, its jig cannot find it again, and it may have been started"""
    return run.destructive and not run.attaches and (run.ordered or run.takeover)


def first_fault(run: RunState) -> bool:
    """it is the first time"""
    return run.faults < ASKED


def first_unreached(run: RunState) -> bool:
    """it is the first time"""
    return run.unreached < ASKED


def first_fault_unrepeatable(run: RunState) -> bool:
    """it is the first time, and it may not be asked again"""
    return first_fault(run) and unrepeatable(run)


def first_unreached_unrepeatable(run: RunState) -> bool:
    """it is the first time, and it may not be asked again"""
    return first_unreached(run) and unrepeatable(run)


def untouched(run: RunState) -> bool:
    """it was certainly not begun"""
    return run.untouched


def untouched_once(run: RunState) -> bool:
    """it was certainly not begun, and its role must not run twice"""
    return run.untouched and run.destructive


def dead_before(run: RunState) -> bool:
    """its machine was dead by agreement, and may answer others since"""
    return run.deaths > 0


def hidden(run: RunState) -> bool:
    """its noderole's record cannot be read"""
    return run.hidden


def with_neighbours(run: RunState) -> bool:
    """its neighbours were to be written with it"""
    return run.oversized == 1


def returned(run: RunState) -> bool:
    """it gave attributes back"""
    return run.returned and run.oversized == 2


# -- the table --


class Rule(msgspec.Struct, frozen=True):
    """In this phase and at this event, where the condition holds: the next phase, and what is to be done."""

    phase: Phase
    event: Event
    to: Phase
    do: tuple[Do, ...] = ()
    when: Callable[[RunState], bool] | None = None


def _rules() -> tuple[Rule, ...]:
    claiming, running, cancelling = Phase.CLAIMING, Phase.RUNNING, Phase.CANCELLING
    reporting, waiting, releasing, over = Phase.REPORTING, Phase.WAITING, Phase.RELEASING, Phase.OVER
    at, do = Event, Do
    return (
        Rule(claiming, at.CLAIMED, releasing, (do.LET_GO, do.PUT_BACK), drained_untouched_once),
        Rule(claiming, at.CLAIMED, releasing, (do.LET_GO, do.RELEASE), drained),
        Rule(claiming, at.CLAIMED, cancelling, (do.CANCEL,), cancelled),
        Rule(claiming, at.CLAIMED, cancelling, (do.CANCEL,), other_jig),
        Rule(claiming, at.CLAIMED, running, (do.LOSE,), unrepeatable),
        Rule(claiming, at.CLAIMED, running, (do.START,)),
        Rule(claiming, at.REFUSED, over, (do.FORGET, do.FEED, do.CLAIM_LATER)),
        Rule(claiming, at.CANCEL, claiming),
        Rule(claiming, at.DRAINED, claiming),
        Rule(running, at.CANCEL, cancelling, (do.STOP,)),
        Rule(running, at.UNREAD, running, (do.AGAIN,)),
        Rule(running, at.SPOILED, releasing, (do.QUARANTINE, do.LET_GO, do.PUT_BACK), untouched),
        Rule(running, at.SPOILED, releasing, (do.QUARANTINE, do.LET_GO, do.LEAVE)),
        Rule(running, at.FAULT, running, (do.LOSE,), first_fault_unrepeatable),
        Rule(running, at.FAULT, running, (do.AGAIN,), first_fault),
        Rule(running, at.FAULT, releasing, (do.BLAME_HOST, do.LET_GO, do.PUT_BACK), untouched_once),
        Rule(running, at.UNREACHED, running, (do.LOSE,), first_unreached_unrepeatable),
        Rule(running, at.UNREACHED, running, (do.AGAIN,), first_unreached),
        Rule(running, at.DOUBTED, releasing, (do.BLAME_LINK, do.LET_GO, do.PUT_BACK), untouched_once),
        *_answers(running),
        Rule(cancelling, at.LEFT, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.UNREAD, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.SPOILED, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.FAULT, cancelling, (do.CANCEL_AGAIN,), first_fault),
        Rule(cancelling, at.UNREACHED, cancelling, (do.CANCEL_AGAIN,), first_unreached),
        *_answers(cancelling),
        Rule(reporting, at.CANCEL, reporting),
        Rule(reporting, at.WRITTEN, over, (do.RECORD, do.FORGET, do.FEED, do.LOOK)),
        Rule(reporting, at.PASSED_ON, over, (do.RECORD, do.HAND_OVER)),
        Rule(reporting, at.TOO_LARGE, reporting, (do.WRITE_ALONE,), with_neighbours),
        Rule(reporting, at.TOO_LARGE, reporting, (do.WRITE_FAILURE,), returned),
        Rule(reporting, at.TOO_LARGE, waiting, (do.WAIT,)),
        Rule(reporting, at.WALL_CHANGED, waiting, (do.READ_WALL,)),
        Rule(reporting, at.REFUSED, waiting, (do.WAIT,)),
        Rule(reporting, at.NOT_ALLOWED, over, (do.FORGET, do.FEED, do.LOOK)),
        Rule(waiting, at.CANCEL, waiting),
        *(
            rule
            for event in (at.DUE, at.READ)
            for rule in (
                Rule(waiting, event, waiting, (do.VACATE, do.FEED, do.WAIT), hidden),
                Rule(waiting, event, waiting, (do.JUDGE,), dead_before),
                Rule(waiting, event, reporting, (do.WRITE,)),
            )
        ),
        Rule(waiting, at.DOUBTED, releasing, (do.BLAME_LINK, do.LET_GO, do.PUT_BACK), untouched_once),
        Rule(waiting, at.DOUBTED, releasing, (do.BLAME_LINK, do.LET_GO, do.LEAVE)),
        Rule(waiting, at.DEAD, waiting, (do.VACATE, do.FEED, do.WAIT), hidden),
        Rule(waiting, at.DEAD, reporting, (do.WRITE,)),
        Rule(waiting, at.SUPERSEDED, over, (do.FORGET, do.FEED, do.LOOK)),
        Rule(waiting, at.DRAINED, releasing, (do.LET_GO, do.RELEASE)),
        Rule(releasing, at.RELEASED, over, (do.FORGET, do.FEED, do.LOOK)),
        *(Rule(phase, at.SESSION_LOST, over, (do.FORGET,)) for phase in Phase if phase is not over),
    )


def _answers(phase: Phase) -> tuple[Rule, ...]:
    """What a jig's answers come to, whatever it was asked, and what ends a run without any."""
    at, do = Event, Do
    reporting, releasing, waiting, over = Phase.REPORTING, Phase.RELEASING, Phase.WAITING, Phase.OVER
    return (
        Rule(phase, at.FAULT, releasing, (do.BLAME_HOST, do.LET_GO, do.LEAVE)),
        Rule(phase, at.UNREACHED, phase, (do.JUDGE,)),
        Rule(phase, at.DOUBTED, releasing, (do.BLAME_LINK, do.LET_GO, do.LEAVE)),
        *(
            rule
            for event in (at.ENDED, at.DEAD)
            for rule in (
                Rule(phase, event, waiting, (do.VACATE, do.FEED, do.WAIT), hidden),
                Rule(phase, event, reporting, (do.WRITE,)),
            )
        ),
        Rule(phase, at.SUPERSEDED, over, (do.FORGET, do.FEED, do.LOOK)),
        Rule(phase, at.DRAINED, releasing, (do.LET_GO, do.RELEASE)),
    )


class About(msgspec.Struct, frozen=True):
    """What people want to know of a phase that no rule says."""

    stands: str  # what of it is in ZooKeeper, and on the machine
    killed: str  # what follows when the annealer dies there
    frozen: str  # what follows, when it is frozen for longer than its session lives, and thawed
    ignored: str = "Nothing."  # why it changes nothing to be cancelled, or to drain, where no rule says what to do


_VOID: Final = "As after kill -9 once the session's time is over. When the annealer goes on it hears SESSION_LOST"
_BLIND: Final = "Where its jig cannot find a run again, it is done anew, or is in ERROR if its role is destructive."
ABOUT: Final[Mapping[Phase, About]] = {
    Phase.CLAIMING: About(
        "The claim and the noderole in TRANSITION are written, or nothing is. Nothing was ordered.",
        "A claim that was written goes with the session; another annealer takes the noderole over and starts it. A destructive"
        " role whose jig cannot find a run again is in ERROR instead, for a person to look.",
        f"{_VOID}, and has nothing to leave alone.",
        "It is remembered. As soon as the claim is written, what goes on of a run that is cancelled is ended; an annealer that"
        " drains gives the node back instead.",
    ),
    Phase.RUNNING: About(
        "The claim stands, the noderole is in TRANSITION, and its script may go on on the machine.",
        "The script goes on. When the session's time is over another annealer takes the noderole over under a higher epoch,"
        f" and attaches to the script or gets its result: it is not started again. {_BLIND}",
        f"{_VOID}; what it orders or writes late is refused, by the machine for its epoch and by ZooKeeper for its fence.",
    ),
    Phase.CANCELLING: About(
        "As RUNNING, and the noderole has its cancel_reason.",
        "The noderole keeps its cancel_reason: the annealer that takes it over ends the script on the machine.",
        f"{_VOID}; the machine refuses its order where another annealer gave one of a higher epoch.",
        "Nothing: it is being cancelled.",
    ),
    Phase.REPORTING: About(
        "The transaction of the outcome is under way. The machine keeps its result.",
        "The transaction is written whole, and the node is free; or not at all, and the annealer that takes the noderole over"
        f" asks the machine, which gives the same result. {_BLIND}",
        f"{_VOID}; a transaction that it sends late is refused for its fence.",
        "Nothing before the answer is there; where it is no, the phase is WAITING.",
    ),
    Phase.WAITING: About(
        "The claim stands, and the noderole is in TRANSITION. The outcome is here and on the machine.",
        f"The annealer that takes the noderole over asks the machine, which gives the same result. {_BLIND}",
        f"{_VOID}, and forgets the outcome: the machine still has it.",
        "Nothing here: whatever the outcome is, its noderole is written as failed for that reason.",
    ),
    Phase.RELEASING: About(
        "The transaction that gives the node back is under way. What was begun goes on.",
        "As if the node had been given back: the claim goes, now or with the session, and another annealer attaches.",
        f"{_VOID}, and has nothing to do.",
        "Nothing: the annealer that takes the noderole over does it.",
    ),
    Phase.OVER: About("Nothing is held.", "Nothing.", "Nothing."),
}

RULES: Final = _rules()
_INDEX: Final[Mapping[tuple[Phase, Event], tuple[Rule, ...]]] = {
    (rule.phase, rule.event): tuple(other for other in RULES if (other.phase, other.event) == (rule.phase, rule.event))
    for rule in RULES
}

#: What an event counts, before the rules are asked.
_COUNTED: Final[Mapping[Event, str]] = {
    Event.FAULT: "faults",
    Event.UNREACHED: "unreached",
    Event.REFUSED: "refusals",
    Event.WALL_CHANGED: "refusals",
    Event.TOO_LARGE: "oversized",
    Event.DEAD: "deaths",
}


def step(run: RunState, event: Event, **learnt: Any) -> tuple[RunState, tuple[Do, ...]]:
    """What an event makes of a run, and what is to be done for it, in order.

    ``learnt``: fields of the run that came with the event.
    """
    rules = _INDEX.get((run.phase, event), ())
    if not rules:
        return run, ()
    if counter := _COUNTED.get(event):
        learnt[counter] = getattr(run, counter) + 1
    run = replace(run, **learnt)
    rule = next(rule for rule in rules if rule.when is None or rule.when(run))
    return replace(run, phase=rule.to), rule.do
