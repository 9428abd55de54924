"""The meaning of the outcome of a run: its record, the event for its noderole, and the transaction that writes both."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import addressing, claim, drift, installing
from nodepool_ocb.engine.acting.backoff import LONGEST_BACKOFF_SECONDS
from nodepool_ocb.engine.binding.refusals import TASK
from nodepool_ocb.engine.liveness import died
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Conflict, OcbError, TooLarge
from nodepool_ocb.jigs.jig import (
    REASON_CHARACTERS,
    Boots,
    Failed,
    Fenced,
    Lost,
    Outcome,
    Succeeded,
    Unknown,
    Unreachable,
)
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.model.records import Change, Check, Delete, NodeRole, Role, Run
from nodepool_ocb_annealer.runs import installations
from nodepool_ocb_annealer.runs.attributes import Results

MOST_DOUBLINGS: Final = 20


class Conclusion(msgspec.Struct, frozen=True):
    """The changes of a finished run."""

    together: Callable[[], list[Change]]  # the transaction that writes it and gives the node back
    alone: Callable[[], list[Change]]  # the same without any neighbour
    moved: dict[Vertex, NodeRole]
    run: Run
    event: Event | None  # None where the noderole stays as it is, for another annealer
    results: Sequence[Change] = ()  # the records below the noderole
    last: bool = False  # the node changes with it

    @property
    def passes_on(self) -> bool:
        """Whether the same transaction may claim the next noderole of the node."""
        return self.event in (Event.SUCCEED, Event.CHECKED) and not self.last


def conclude(
    grant: claim.Grant, role: Role, outcome: Outcome, ended: float, results: Results, now: float
) -> Conclusion:
    """The changes of an outcome; raises Conflict if the state machine of noderoles refuses it.

    ``role``: as it was claimed; ``results``: its changes below the noderole; times are Unix seconds.
    """
    vertex = grant.vertex
    if isinstance(outcome, Succeeded) and (reason := installing.failure(vertex)):  # since its machine was looked at
        outcome = Failed(reason, tail=outcome.tail, log=outcome.log)
    run = _record(grant, outcome, ended)
    if isinstance(outcome, Unreachable):
        return _dead(grant, outcome, run, now)
    if isinstance(outcome, Succeeded) and installing.of_vertex(vertex) is not None and not vertex.record.cancel_reason:
        return _installed(grant, run, now)
    if grant.record.check is not None:
        return _checked(grant, outcome, run, now)
    if vertex.record.cancel_reason:  # with any outcome
        moved = apply({vertex: Event.FAIL}, now, by=grant.annealer, reason=vertex.record.cancel_reason)
        return _of_run(grant, moved, run, Event.FAIL, installations.given_up(grant, vertex.record.cancel_reason, now))
    event, more = _event(outcome, grant.record, role, now)
    moved = apply({vertex: event}, now, by=grant.annealer, reason=run.reason)
    if event is Event.SUCCEED and results.number:
        more = {"given": results.number}
        if not results.instant:
            run = replace(run, given=results.number, former=results.former)
    if more:
        moved[vertex] = moved[vertex].amended(**more)
    over = installations.given_up(grant, run.reason or "it ended", now) if event is not Event.SUCCEED else []
    return _of_run(grant, moved, run, event, [*results.changes, *over])


def _checked(grant: claim.Grant, outcome: Outcome, run: Run, now: float) -> Conclusion:
    """Of a check, for any outcome: the noderole stays ACTIVE, with the result."""
    found = Drift.UNKNOWN
    if isinstance(outcome, Succeeded | Failed) and not grant.vertex.record.cancel_reason:
        found = drift.found(outcome.exit_code)
    moved = apply({grant.vertex: Event.CHECKED}, now, by=grant.annealer)
    checked = drift.noted(grant.vertex.record, found, run.ended, grant.run, grant.epoch)
    moved[grant.vertex] = moved[grant.vertex].amended(checked=checked)
    reason = run.reason if found is Drift.UNKNOWN else None
    return _of_run(grant, moved, replace(run, outcome=str(found), reason=reason), Event.CHECKED)


def put_back(grant: claim.Grant, reason: str, now: float, pause_seconds: float) -> list[Change]:
    """As ``untouched``; where its record cannot be read now, the node alone is given back."""
    try:
        return untouched(grant, reason, now, pause_seconds)
    except Conflict:
        return claim.releasing(grant)


def untouched(grant: claim.Grant, reason: str, now: float, pause_seconds: float = 0.0) -> list[Change]:
    """Give back a claimed noderole that did not begin: this does not count as an attempt.

    It is not claimed before the pause is over.
    """
    vertex = grant.vertex
    moved = apply({vertex: Event.DEFER}, now, by=grant.annealer, reason=reason)
    not_before = now + pause_seconds if pause_seconds else 0.0
    moved[vertex] = moved[vertex].amended(attempt=grant.record.attempt - 1, not_before=not_before)
    return claim.finishing(grant, moved, _record(grant, Unknown(reason), now))


def unkept(outcome: Outcome | None, refused: OcbError | None) -> Failed | Lost:
    """The record of a run with an outcome that cannot be written: it is too large, or has a value that no record may hold.

    One that succeeded keeps its exit code, by which a destructive role is known to be done.
    """
    tail, file = getattr(outcome, "tail", ""), getattr(outcome, "log", None)
    if isinstance(refused, TooLarge):
        return Failed(str(refused), getattr(outcome, "exit_code", None), tail, log=file)
    said = f"the outcome of the run cannot be kept: {refused}"[:REASON_CHARACTERS]
    if isinstance(outcome, Lost):
        return Lost(said)
    return Failed(said, 0 if isinstance(outcome, Succeeded) else None, tail, log=file)


def _of_run(
    grant: claim.Grant, moved: dict[Vertex, NodeRole], run: Run, event: Event, results: Sequence[Change] = ()
) -> Conclusion:
    own = {grant.vertex: moved[grant.vertex]}
    together = partial(claim.finishing, grant, moved, run, results)
    alone = partial(claim.finishing, grant, own, run, results)
    return Conclusion(together, alone, moved, run, event, results)


def _installed(grant: claim.Grant, run: Run, now: float) -> Conclusion:
    """The machine is alive on its new disk: all other noderoles of the node are set back."""
    moved, node = installations.succeeded(grant, now)
    together = partial(installations.finishing, grant, moved, run, node, now)
    alone = partial(installations.finishing, grant, {grant.vertex: moved[grant.vertex]}, run, node, now)
    return Conclusion(together, alone, moved, run, Event.SUCCEED, last=True)


def _dead(grant: claim.Grant, outcome: Unreachable, run: Run, now: float) -> Conclusion:
    if paths.node(grant.fqdn) in grant.vertex.node.world.unreadable:
        released = partial(claim.releasing, grant)
        return Conclusion(released, released, {}, run, None)
    end = Check(paths.fence(grant.fqdn), grant.fence), Delete(paths.claim(grant.fqdn), grant.claim_version)
    # where the node is not available the noderole stays in TRANSITION: the annealer that takes it over accounts for the run
    changes = died(grant.vertex.node, now, outcome.why, by=grant.annealer, ended=(grant.vertex, run), together=end)
    return Conclusion(lambda: changes, lambda: changes, {}, run, Event.NODE_DIED)


def _record(grant: claim.Grant, outcome: Outcome, ended: float) -> Run:
    known = outcome if isinstance(outcome, Succeeded | Failed) else None
    return Run(
        annealer=grant.annealer,
        started=grant.started,
        ended=ended,
        outcome=type(outcome).__name__.lower(),
        generation=grant.record.generation,
        epoch=grant.epoch,
        queued=grant.queued,
        exit_code=known.exit_code if known else None,
        reason=_reason(outcome, grant),
        tail=(known.tail or None) if known else None,
        log=f"{socket.gethostname()}:{known.log}" if known and known.log else None,
    )


def _whose(grant: claim.Grant) -> str:
    """Why a machine may obey a higher epoch, and the way out that lets no two jigs act on it."""
    others = addressing.doubles(grant.vertex.node.world, grant.fqdn)
    who = (
        f"it seems to be node {', '.join(others)} too"
        if others
        else "it is another node too, of this cluster or another"
    )
    return (
        f"{who}, or ZooKeeper was restored from an older copy (then: stop the daemons, nodepool-ocb restored). Of nodes that are"
        " one machine delete all, then create one again: its epochs begin above those of the deleted; where another cluster has"
        " the machine, let one of both have it. Only if no other cluster gives it orders, and no run goes on there, remove the"
        " directory ssh.state_dir on it, and retry"
    )


def _reason(outcome: Outcome, grant: claim.Grant) -> str | None:
    if isinstance(outcome, Fenced):
        taken = f"the machine has taken an order of epoch {outcome.epoch}, and this one was of epoch {grant.epoch}"
        return f"{taken}: {_whose(grant)}"
    if isinstance(outcome, Unreachable):
        return outcome.why
    return None if isinstance(outcome, Succeeded | Boots) else outcome.reason


def _event(outcome: Outcome, record: NodeRole, role: Role, now: float) -> tuple[Event, dict[str, Any]]:
    """The event of an outcome, and the other fields that it sets in the record."""
    if isinstance(outcome, Succeeded):
        return Event.SUCCEED, {}
    if isinstance(outcome, Lost):
        return Event.LOSE, {"not_before": now + _pause(record, role)}
    done = isinstance(outcome, Failed) and outcome.exit_code == 0  # and its results cannot be kept
    if isinstance(outcome, Failed) and record.attempt <= role.retries and not (done and "destructive" in role.flags):
        pause = _pause(record, role) if TASK not in role.flags else min(role.backoff_seconds, LONGEST_BACKOFF_SECONDS)
        return Event.DEFER, {"not_before": now + pause}  # a task list names one interval for all its retries
    return Event.FAIL, {}


def _pause(record: NodeRole, role: Role) -> float:
    """Seconds from this attempt to the next: doubles with each."""
    doublings = min(max(record.attempt - 1, 0), MOST_DOUBLINGS)
    return float(min(role.backoff_seconds * 2**doublings, LONGEST_BACKOFF_SECONDS))
