"""The table of rules, the conditions of rules, and the one step that a run can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.run.words import Do, RunEvent, RunPhase

ASKED: Final = 2  # attempts before a silent machine is judged, or a node is given back because of a fault of this host
FIRST_AGAIN_SECONDS: Final = 0.01  # for an outcome that was refused; doubles
LONGEST_AGAIN_SECONDS: Final = 5.0
MOST_DOUBLINGS: Final = 10


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as far as decisions depend on it. The first block never changes."""

    takeover: bool = False  # of a run that another claim began
    refresh: bool = False  # its children do not wait for it, and would if it were put back
    destructive: bool = False  # it must not be done twice, not even in part
    attaches: bool = True  # its jig, asked again, finds the run that goes on
    other_jig: bool = False  # it was ordered with another jig than its role has now
    installing: bool = False  # it is an installation with a record, which another claim began

    phase: RunPhase = RunPhase.CLAIMING
    cancel_reason: str | None = None
    ordered: bool = False  # the jig was given its order
    begun: bool = False  # ... and may have begun with it
    returned: bool = False  # its outcome brings attributes to be written
    hidden: bool = False  # its noderole's record cannot be read
    drained: bool = False  # the annealer ends; remembered while an answer is under way
    faults: int = 0  # of this host
    unreached: int = 0
    refusals: int = 0  # of its outcome
    oversized: int = 0  # refusals of its outcome as too large
    unwritable: int = 0  # refusals of its outcome for a value that no record may hold
    deaths: int = 0  # that its machine was found dead by agreement

    @property
    def untouched(self) -> bool:
        """Whether it was certainly not begun, and may go back as if it had not been claimed."""
        return not (self.begun or self.takeover or self.refresh or self.cancel_reason)

    @property
    def wait_seconds(self) -> float:
        """The time until its outcome is written again, in seconds."""
        doublings = (
            MOST_DOUBLINGS if self.hidden else min(self.refusals + self.oversized + self.unwritable, MOST_DOUBLINGS)
        )
        return min(FIRST_AGAIN_SECONDS * 2.0**doublings, LONGEST_AGAIN_SECONDS)


# -- conditions; docs/runs.md has the docstring of each --


def cancelled(run: RunState) -> bool:
    """it is to be cancelled"""
    return run.cancel_reason is not None


def installing(run: RunState) -> bool:
    """it is an installation with a record, which another annealer began"""
    return run.installing


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
    """it is this host's first fault at this run"""
    return run.faults < ASKED


def first_unreached(run: RunState) -> bool:
    """it is the first time that the machine does not answer"""
    return run.unreached < ASKED


def first_fault_unrepeatable(run: RunState) -> bool:
    """it is this host's first fault at this run, and the order may not be given again"""
    return first_fault(run) and unrepeatable(run)


def first_unreached_unrepeatable(run: RunState) -> bool:
    """it is the first time that the machine does not answer, and the order may not be given again"""
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


def first_unwritable(run: RunState) -> bool:
    """it is the first time, and its machine is not dead: a failure without the value may be written"""
    return run.unwritable == 1 and not run.deaths


# -- the table --


class Rule(msgspec.Struct, frozen=True):
    """In this phase and at this event, if the condition holds: the next phase, and the instructions."""

    phase: RunPhase
    event: RunEvent
    to: RunPhase
    do: tuple[Do, ...] = ()
    when: Callable[[RunState], bool] | None = None


def _rules() -> tuple[Rule, ...]:
    claiming, running, cancelling = RunPhase.CLAIMING, RunPhase.RUNNING, RunPhase.CANCELLING
    booting = RunPhase.BOOTING
    reporting, waiting, releasing, over = RunPhase.REPORTING, RunPhase.WAITING, RunPhase.RELEASING, RunPhase.OVER
    at, do = RunEvent, Do
    return (
        Rule(claiming, at.CLAIMED, releasing, (do.LET_GO, do.PUT_BACK), drained_untouched_once),
        Rule(claiming, at.CLAIMED, releasing, (do.LET_GO, do.RELEASE), drained),
        Rule(claiming, at.CLAIMED, cancelling, (do.CANCEL,), cancelled),
        Rule(claiming, at.CLAIMED, cancelling, (do.CANCEL,), other_jig),
        Rule(claiming, at.CLAIMED, booting, (do.INSTALL,), installing),
        Rule(claiming, at.CLAIMED, running, (do.LOSE,), unrepeatable),
        Rule(claiming, at.CLAIMED, running, (do.START,)),
        Rule(claiming, at.REFUSED, over, (do.FORGET, do.FEED, do.CLAIM_LATER)),
        Rule(claiming, at.CANCEL, claiming),
        Rule(claiming, at.DRAINED, claiming),
        Rule(running, at.CANCEL, cancelling, (do.STOP,)),
        Rule(running, at.UNREAD, running, (do.AGAIN,)),
        Rule(running, at.SPOILED, releasing, (do.QUARANTINE, do.LET_GO, do.PUT_BACK), untouched),
        Rule(running, at.SPOILED, releasing, (do.QUARANTINE, do.LET_GO, do.LEAVE)),
        Rule(running, at.SEALED, releasing, (do.SET_ASIDE, do.LET_GO, do.PUT_BACK), untouched),
        Rule(running, at.SEALED, releasing, (do.SET_ASIDE, do.LET_GO, do.LEAVE)),
        Rule(running, at.FAULT, running, (do.LOSE,), first_fault_unrepeatable),
        Rule(running, at.FAULT, running, (do.AGAIN,), first_fault),
        Rule(running, at.FAULT, releasing, (do.BLAME_HOST, do.LET_GO, do.PUT_BACK), untouched_once),
        Rule(running, at.UNREACHED, running, (do.LOSE,), first_unreached_unrepeatable),
        Rule(running, at.UNREACHED, running, (do.AGAIN,), first_unreached),
        Rule(running, at.DOUBTED, releasing, (do.BLAME_LINK, do.LET_GO, do.PUT_BACK), untouched_once),
        Rule(running, at.BOOTS, booting, (do.VACATE, do.FEED, do.INSTALL)),
        *_answers(running),
        Rule(booting, at.CANCEL, booting, (do.ABORT,)),
        Rule(booting, at.FAULT, booting, (do.INSTALL,), first_fault),
        Rule(booting, at.FAULT, releasing, (do.BLAME_HOST, do.LET_GO, do.LEAVE)),
        Rule(booting, at.ENDED, waiting, (do.WAIT,), hidden),
        Rule(booting, at.ENDED, reporting, (do.WRITE,)),
        Rule(booting, at.SUPERSEDED, over, (do.FORGET, do.FEED, do.LOOK)),
        Rule(booting, at.DRAINED, releasing, (do.LET_GO, do.RELEASE)),
        Rule(cancelling, at.LEFT, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.BOOTS, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.UNREAD, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.SPOILED, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.SEALED, cancelling, (do.CANCEL,)),
        Rule(cancelling, at.FAULT, cancelling, (do.CANCEL_AGAIN,), first_fault),
        Rule(cancelling, at.UNREACHED, cancelling, (do.CANCEL_AGAIN,), first_unreached),
        *_answers(cancelling),
        Rule(reporting, at.CANCEL, reporting),
        Rule(reporting, at.DRAINED, reporting),
        Rule(reporting, at.WRITTEN, over, (do.RECORD, do.FORGET, do.FEED, do.LOOK)),
        Rule(reporting, at.PASSED_ON, over, (do.RECORD, do.HAND_OVER)),
        Rule(reporting, at.TOO_LARGE, reporting, (do.WRITE_ALONE,), with_neighbours),
        Rule(reporting, at.TOO_LARGE, reporting, (do.WRITE_FAILURE,), returned),
        Rule(reporting, at.TOO_LARGE, waiting, (do.VACATE, do.FEED, do.WAIT)),
        Rule(reporting, at.UNWRITABLE, reporting, (do.WRITE_FAILURE,), first_unwritable),
        Rule(reporting, at.UNWRITABLE, waiting, (do.VACATE, do.FEED, do.WAIT)),
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
        *(Rule(phase, at.SESSION_LOST, over, (do.FORGET,)) for phase in RunPhase if phase is not over),
    )


def _answers(phase: RunPhase) -> tuple[Rule, ...]:
    """The rules for a jig's answers to any order, and for the end of a run without an answer."""
    at, do = RunEvent, Do
    reporting, releasing, waiting, over = RunPhase.REPORTING, RunPhase.RELEASING, RunPhase.WAITING, RunPhase.OVER
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


RULES: Final = _rules()
_INDEX: Final[Mapping[tuple[RunPhase, RunEvent], tuple[Rule, ...]]] = {
    (rule.phase, rule.event): tuple(other for other in RULES if (other.phase, other.event) == (rule.phase, rule.event))
    for rule in RULES
}

#: The counter that an event raises, before the rules are asked.
_COUNTED: Final[Mapping[RunEvent, str]] = {
    RunEvent.FAULT: "faults",
    RunEvent.UNREACHED: "unreached",
    RunEvent.REFUSED: "refusals",
    RunEvent.WALL_CHANGED: "refusals",
    RunEvent.TOO_LARGE: "oversized",
    RunEvent.UNWRITABLE: "unwritable",
    RunEvent.DEAD: "deaths",
}


def step(run: RunState, event: RunEvent, **learnt: Any) -> tuple[RunState, tuple[Do, ...]]:
    """The state of a run after an event, and the instructions for it, in order.

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
