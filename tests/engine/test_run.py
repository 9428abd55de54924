"""A run as a machine: its table by itself, and every order of answers that a world can give."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.run import ASKED, RULES, Do, Rule, RunEvent, RunPhase, RunState, step

HEARD_AT_ONCE = {Do.START, Do.CANCEL, Do.LOSE, Do.JUDGE, Do.WRITE, Do.WRITE_ALONE, Do.WRITE_FAILURE, Do.HAND_OVER}
GIVING_BACK = {Do.RELEASE, Do.LEAVE, Do.PUT_BACK}
AWAITED = (Do.VACATE, Do.FEED, Do.WAIT)  # the slot is given back meanwhile
ENDS = {Do.FORGET, Do.HAND_OVER}


def by_pair() -> Iterable[list[Rule]]:
    pairs: dict[tuple[RunPhase, RunEvent], list[Rule]] = {}
    for rule in RULES:
        pairs.setdefault((rule.phase, rule.event), []).append(rule)
    return pairs.values()


# -- the table --


def test_of_the_rules_of_a_phase_and_an_event_the_last_alone_has_no_condition() -> None:
    for rules in by_pair():
        assert [rule.when is None for rule in rules] == [False] * (len(rules) - 1) + [True], rules


def test_every_phase_ends_with_its_session_and_every_event_and_instruction_is_used() -> None:
    assert {rule.phase for rule in RULES if rule.event is RunEvent.SESSION_LOST} == set(RunPhase) - {RunPhase.OVER}
    assert {rule.event for rule in RULES} == set(RunEvent)
    assert {do for rule in RULES for do in rule.do} == set(Do)


def test_what_is_heard_while_an_instruction_is_carried_out_finds_no_other_instruction_waiting() -> None:
    for rule in RULES:
        assert not HEARD_AT_ONCE.intersection(rule.do[:-1]), rule


def test_a_run_is_over_when_it_is_forgotten_and_never_else() -> None:
    for rule in RULES:
        assert len(ENDS.intersection(rule.do)) == (rule.to is RunPhase.OVER), rule
        assert bool(GIVING_BACK.intersection(rule.do)) == (
            rule.to is RunPhase.RELEASING and rule.phase is not RunPhase.RELEASING
        ), rule


def test_nothing_is_heard_of_a_run_that_is_over() -> None:
    for event in RunEvent:
        assert step(RunState(phase=RunPhase.OVER), event) == (RunState(phase=RunPhase.OVER), ())


@pytest.mark.parametrize(
    ("phase", "event", "learnt"),
    [
        (phase, event, learnt)
        for event, learnt, phases in (
            (
                RunEvent.CANCEL,
                {"cancel_reason": "asked for"},
                (RunPhase.CLAIMING, RunPhase.REPORTING, RunPhase.WAITING),
            ),
            (RunEvent.DRAINED, {"drained": True}, (RunPhase.CLAIMING, RunPhase.REPORTING)),
        )
        for phase in phases
    ],
)
def test_what_is_asked_of_a_run_while_an_answer_is_awaited_is_remembered(
    phase: RunPhase, event: RunEvent, learnt: dict[str, Any]
) -> None:
    run = RunState(phase=phase)
    assert step(run, event, **learnt) == (replace(run, **learnt), ())


@pytest.mark.parametrize(
    ("run", "instructions"),
    [
        (RunState(phase=RunPhase.CLAIMING, cancel_reason="asked for"), (Do.CANCEL,)),
        (RunState(phase=RunPhase.CLAIMING, takeover=True, other_jig=True), (Do.CANCEL,)),
        (RunState(phase=RunPhase.CLAIMING, drained=True), (Do.LET_GO, Do.RELEASE)),
        (RunState(phase=RunPhase.CLAIMING, drained=True, cancel_reason="asked for"), (Do.LET_GO, Do.RELEASE)),
        (RunState(phase=RunPhase.CLAIMING, drained=True, destructive=True), (Do.LET_GO, Do.PUT_BACK)),
        (RunState(phase=RunPhase.CLAIMING, drained=True, destructive=True, takeover=True), (Do.LET_GO, Do.RELEASE)),
        (RunState(phase=RunPhase.CLAIMING), (Do.START,)),
    ],
)
def test_a_claim_that_is_given_leads_to_what_was_asked_meanwhile(run: RunState, instructions: tuple[Do, ...]) -> None:
    assert step(run, RunEvent.CLAIMED)[1] == instructions


@pytest.mark.parametrize(
    ("returned", "instructions"),
    [
        (True, [(Do.WRITE_ALONE,), (Do.WRITE_FAILURE,), AWAITED, AWAITED]),
        (False, [(Do.WRITE_ALONE,), AWAITED, AWAITED]),
    ],
)
def test_an_outcome_that_is_too_large_is_written_alone_then_without_what_it_gave_back_and_then_later(
    returned: bool, instructions: list[tuple[Do, ...]]
) -> None:
    run, given = RunState(phase=RunPhase.REPORTING, returned=returned), []
    for _ in instructions:
        run, do = step(run, RunEvent.TOO_LARGE)
        given.append(do)
        if run.phase is RunPhase.WAITING:
            run, _ = step(run, RunEvent.DUE)
    assert given == instructions


def test_the_wait_doubles_and_stays_below_its_bound() -> None:
    waits = [RunState(refusals=count).wait_seconds for count in range(12)]
    assert waits[:3] == [0.01, 0.02, 0.04]
    assert waits[9:] == [5.0] * 3
    assert RunState(hidden=True).wait_seconds == 5.0


# -- every order of answers --


class Outside(msgspec.Struct, frozen=True, gc=False):
    """What is under way outside of the machine, and what it has done."""

    claim: str = "asked"  # asked, held, gone
    slot: str = ""  # "", run, end
    leaving: bool = False  # the jig was told to leave the run alone
    gone: bool = False  # ... because the node is not ours any more
    writing: bool = False
    reading: bool = False
    releasing: bool = False
    due: bool = False  # a timer
    vacated: bool = False  # its slot is another's
    judgement: str = ""  # that its machine is dead: fresh, stale
    begun: bool = False  # the machine may have begun
    cancelled: bool = False
    superseded: bool = False
    forgotten: bool = False
    deciding: str = ""  # what the annealer finds out at once: judge, lose, "write" that may be refused at once
    installs: bool = False  # the jig says that the machine must be installed
    installing: bool = False  # the steps of an installation are carried out


World = tuple[RunState, Outside]
#: Counters, with the least count above which they decide nothing.
MOST = [
    (name, attrgetter(name), bound)
    for name, bound in {
        "faults": ASKED + 1,
        "unreached": ASKED + 1,
        "refusals": 1,
        "oversized": 3,
        "deaths": 1,
        "unwritable": 2,
    }.items()
]


def saturated(run: RunState) -> RunState:
    """The same with counters that decide nothing any more cut off."""
    above = {name: bound for name, count, bound in MOST if count(run) > bound}
    return replace(run, **above) if above else run


def answers(run: RunState, outside: Outside) -> Iterator[tuple[RunEvent, dict[str, Any], dict[str, Any]]]:
    """What may be heard next: the event, what comes with it, and what changes outside."""
    if outside.deciding == "judge":
        for hidden in (False, True):
            yield RunEvent.DEAD, {"hidden": hidden}, {"deciding": "", "judgement": "fresh"}
            yield RunEvent.DOUBTED, {"hidden": hidden}, {"deciding": ""}
        return
    if outside.deciding in ("lose", "abort"):
        yield RunEvent.ENDED, {}, {"deciding": "", "installing": False}
        return
    if outside.claim == "asked":
        yield RunEvent.CLAIMED, {}, {"claim": "held"}
        yield RunEvent.REFUSED, {}, {"claim": "gone"}
    if outside.slot:
        yield from slot_answers(run, outside)
    if outside.writing:
        over = {"writing": False}
        yield from ((event, {}, {**over, "claim": "gone"}) for event in (RunEvent.WRITTEN, RunEvent.PASSED_ON))
        yield from (
            (event, {}, over)
            for event in (RunEvent.TOO_LARGE, RunEvent.UNWRITABLE, RunEvent.WALL_CHANGED, RunEvent.REFUSED)
        )
        yield RunEvent.NOT_ALLOWED, {}, over
    if outside.installing:
        yield RunEvent.FAULT, {}, {"installing": False}
        yield from ((RunEvent.ENDED, {"hidden": hidden}, {"installing": False}) for hidden in (False, True))
    later = {"judgement": "stale" if outside.judgement else ""}
    if outside.reading:
        yield from ((RunEvent.READ, {"hidden": hidden}, {"reading": False, **later}) for hidden in (False, True))
    if outside.due:
        yield from ((RunEvent.DUE, {"hidden": hidden}, {"due": False, **later}) for hidden in (False, True))
    if outside.releasing:
        yield RunEvent.RELEASED, {}, {"releasing": False, "claim": "gone"}
    if outside.claim != "gone" and not outside.cancelled:
        yield RunEvent.CANCEL, {"cancel_reason": "asked for"}, {"cancelled": True}
    if outside.claim == "held" and not (outside.superseded or outside.writing):
        yield RunEvent.SUPERSEDED, {}, {"superseded": True}
    yield RunEvent.DRAINED, {"drained": True}, {}
    yield RunEvent.SESSION_LOST, {}, {}


def slot_answers(run: RunState, outside: Outside) -> Iterator[tuple[RunEvent, dict[str, Any], dict[str, Any]]]:
    over = {"slot": "", "leaving": False}
    if outside.gone or (outside.leaving and outside.slot == "run"):
        yield RunEvent.LEFT, {}, over
    if outside.slot == "run":
        if outside.installs:
            yield RunEvent.BOOTS, {}, over
        yield RunEvent.UNREAD, {}, over
        yield RunEvent.SPOILED, {}, over
        yield RunEvent.SEALED, {}, over
    for event, begun in product((RunEvent.FAULT, RunEvent.UNREACHED), (False, True)):
        may_have = run.begun or begun
        yield event, {"ordered": run.ordered or begun, "begun": may_have}, {**over, "begun": outside.begun or begun}
    for hidden, returned in product((False, True), repeat=2):
        yield RunEvent.ENDED, {"hidden": hidden, "returned": returned, "ordered": True}, {**over}


def carried_out(run: RunState, outside: Outside, do: Do) -> Outside:
    """What is outside after an instruction; fails where it must not be given."""
    assert not outside.forgotten or do in (Do.FEED, Do.LOOK, Do.CLAIM_LATER), do
    idle = not (outside.slot or outside.writing or outside.releasing or outside.reading or outside.due)
    match do:
        case Do.START | Do.AGAIN:
            assert idle
            assert outside.claim == "held"
            assert not outside.cancelled, "nothing is ordered any more"
            assert not run.other_jig, "what goes on is ended first"
            assert not run.drained
            assert run.attaches or not run.destructive or not (run.ordered or run.takeover), "it may run already"
            return replace(outside, slot="run")
        case Do.INSTALL:
            assert idle
            assert outside.claim == "held"
            assert not outside.cancelled, "nothing is ordered any more"
            assert outside.vacated or run.takeover, "it holds no slot"
            return replace(outside, installing=True, vacated=True)
        case Do.CANCEL | Do.CANCEL_AGAIN:
            assert idle
            assert outside.claim == "held"
            assert outside.cancelled or run.other_jig
            return replace(outside, slot="end")
        case Do.STOP:
            assert outside.slot == "run"
            return replace(outside, leaving=True)
        case Do.LET_GO:
            return replace(outside, leaving=True, gone=True)
        case Do.JUDGE | Do.LOSE | Do.ABORT:
            assert idle
            assert do is not Do.JUDGE or run.unreached >= ASKED, "it was asked twice"
            assert do is not Do.ABORT or outside.cancelled
            return replace(outside, deciding=do.lower())
        case Do.WRITE | Do.WRITE_ALONE | Do.WRITE_FAILURE:
            assert idle
            assert outside.claim == "held"
            assert not run.hidden, "its record is not known"
            assert outside.judgement != "stale", "the machine may answer others by now"
            unwritable = run.unwritable == 1 and not run.deaths
            assert do is not Do.WRITE_FAILURE or run.returned or unwritable, "only what it gave back can be too large"
            return replace(outside, writing=True)
        case Do.READ_WALL:
            return replace(outside, reading=True)
        case Do.VACATE:
            return replace(outside, vacated=True)
        case Do.WAIT:
            assert idle
            assert outside.vacated or not run.hidden, "that may last, and others wait for the slot"
            return replace(outside, due=True)
        case Do.PUT_BACK | Do.LEAVE | Do.RELEASE:
            assert not outside.writing
            assert outside.claim == "held", "it may be another's"
            assert outside.gone, "the jig was told first"
            if do is Do.PUT_BACK:
                assert run.untouched
                assert not outside.cancelled, "somebody is to end it"
                assert not outside.begun
            return replace(outside, releasing=True)
        case Do.FORGET | Do.HAND_OVER:
            return replace(outside, forgotten=True, installing=False)
    return outside


def awaited(outside: Outside) -> bool:
    """Whether something will be heard, whatever the world does."""
    pending = (
        outside.slot or outside.installing or outside.writing or outside.releasing or outside.reading or outside.due
    )
    return bool(pending or outside.deciding or outside.claim == "asked")


class Walked(msgspec.Struct):
    """Where every order of answers leads."""

    phases: set[RunPhase]
    rules: list[Rule]  # that were taken


@cache
def walk(start: RunState, installs: bool = False) -> Walked:
    """Every state that any order of answers leads to, each checked."""
    taken: dict[tuple[int, RunEvent], Rule] = {}
    begin: World = (start, Outside(begun=start.takeover, installs=installs))
    seen, queue = {begin}, deque([begin])
    while queue:
        run, outside = queue.popleft()
        assert run.phase is RunPhase.OVER or awaited(outside), (run, outside)
        assert (run.phase is RunPhase.OVER) == outside.forgotten, (run, outside)
        if run.phase is RunPhase.OVER:
            continue
        for event, learnt, changes in answers(run, outside):
            after, instructions = step(run, event, **learnt)
            if instructions and (id(instructions), event) not in taken:
                rule = next(rule for rule in RULES if rule.do is instructions and rule.event is event)
                taken[id(instructions), event] = rule
            there = replace(outside, **changes) if changes else outside
            for do in instructions:
                there = carried_out(after, there, do)
            following = (saturated(after), there)
            known = len(seen)
            seen.add(following)  # and no look before: a hash of both takes longer than the step
            if len(seen) > known:
                queue.append(following)
    return Walked({run.phase for run, _ in seen}, list(taken.values()))  # not the worlds: half a gigabyte


def by_rules(start: RunState) -> tuple[bool, bool]:
    """In this order five walks take every rule; each walk takes two seconds."""
    return start.refresh, start.destructive == start.attaches


STARTS = [
    RunState(takeover=takeover, refresh=refresh, destructive=destructive, attaches=attaches, other_jig=other)
    for takeover, refresh, destructive, attaches, other in product((False, True), repeat=5)
    if (takeover or not other)  # a run that begins has the jig of its role
    and (destructive or attaches)  # whether it can be found again matters for no other
    and not (refresh and takeover)  # either alone forbids to put it back
]
STARTS.sort(key=by_rules)
#: The first take every rule; and one that was refreshed, and one that can be found again though it destroys.
SOME = [*STARTS[:5], RunState(refresh=True, destructive=True)]


@pytest.mark.parametrize(
    "start",
    [start if start in SOME else pytest.param(start, marks=pytest.mark.long) for start in STARTS],
    ids=lambda start: (
        "-".join(
            name for name in ("takeover", "refresh", "destructive", "attaches", "other_jig") if getattr(start, name)
        )
        or "plain"
    ),
)
def test_in_every_order_of_answers_nothing_is_ordered_twice_or_too_late_and_something_is_awaited(
    start: RunState,
) -> None:
    never = {RunPhase.BOOTING} | ({RunPhase.RUNNING} if start.other_jig else set())
    assert walk(start).phases == set(RunPhase) - never


#: An installation that begins, and one that goes on under another annealer.
INSTALLATIONS = [
    (RunState(destructive=True), True),
    (RunState(destructive=True, takeover=True, installing=True), False),
]


@pytest.mark.parametrize(("start", "installs"), INSTALLATIONS, ids=("begun", "taken-over"))
def test_in_every_order_of_answers_an_installation_holds_no_slot_and_something_is_awaited(
    start: RunState, installs: bool
) -> None:
    never = set() if installs else {RunPhase.RUNNING}
    assert walk(start, installs).phases == set(RunPhase) - never


def test_every_rule_is_taken_in_some_order_of_answers() -> None:
    missing = {id(rule): rule for rule in RULES if rule.do}
    for start, installs in [*INSTALLATIONS, *((start, False) for start in STARTS)]:
        if missing:
            for rule in walk(start, installs).rules:
                missing.pop(id(rule), None)
    assert list(missing.values()) == []
