"""Slots, and what the outcome of a run means; what happens in a slot is in running.

A jig that acts on a machine takes a slot and runs in a thread of its own; an instant one (noop) is run where it is
started. A machine that does not answer is asked once more before it counts as dead.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import socket
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.engine import addressing, claim
from nodepool_ocb.engine.liveness import died
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.readiness import LONGEST_BACKOFF_SECONDS
from nodepool_ocb.engine.world import NodeView, Vertex, World, ordered_with
from nodepool_ocb.jigs.jig import Failed, Fenced, Jig, Lost, Outcome, Succeeded, Unknown, Unreachable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Delete, NodeRole, Role, Run, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.runs import attributes
from nodepool_ocb_annealer.runs.attempts import Attempt, Finished
from nodepool_ocb_annealer.runs.run import Running

log = logging.getLogger(__name__)

MOST_DOUBLINGS: Final = 20
INSTANT: Final = Succeeded(attributes={}, exit_code=0, tail="", log=None)


class Ending(msgspec.Struct, frozen=True):
    """What a finished run comes to."""

    alone: Callable[[], list[Change]]  # the transaction that writes it and gives the node back
    smallest: Callable[[], list[Change]]  # the same without any neighbour
    moved: dict[Vertex, NodeRole]
    run: Run
    event: Event | None  # None where the noderole stays as it is, for another annealer
    may_pass_on: bool  # whether the same transaction may claim the next noderole of the node


class Working:
    """The slots of one annealer. Call everything from the turn thread; ``post`` brings answers back to it."""

    def __init__(
        self,
        session: Session,
        world: World,
        settings: AnnealerSettings,
        jigs: dict[str, Jig],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._session, self._world, self._settings, self._jigs, self._post = session, world, settings, jigs, post
        self._running = Running(session, settings, jigs)
        self._threads = ThreadPoolExecutor(max_workers=settings.slots, thread_name_prefix="slot")
        self._busy = 0
        self._token, self._count_of_runs = secrets.token_hex(3), itertools.count(16)
        metrics.SLOTS.set(settings.slots)

    # -- slots --

    @property
    def free(self) -> bool:
        return self._busy < self._settings.slots

    def room(self, vertex: Vertex, instead_of: Attempt | None = None) -> bool:
        """Whether the noderole could start now, in the slot of ``instead_of`` if that has one."""
        role = self._world.role_of(vertex)
        under_way = ordered_with(vertex) if vertex.record.state is State.TRANSITION else None
        instant = self._instant(role, under_way or role.jig)
        return instant or self.free or (instead_of is not None and instead_of.slot)

    def instant(self, vertex: Vertex) -> bool:
        """Whether it is to begin, and there is nothing to run for it on any machine."""
        if vertex.record.state is State.TRANSITION:
            return False
        role = self._world.role_of(vertex)
        return self._instant(role, role.jig)

    def occupy(self, attempt: Attempt) -> None:
        if not self._instant(attempt.role, attempt.jig):
            attempt.slot = True
            self._count(+1)

    def vacate(self, attempt: Attempt) -> None:
        if attempt.slot:
            attempt.slot = False
            self._count(-1)

    def pass_on(self, attempt: Attempt, following: Attempt) -> None:
        """The next noderole of the node takes over the slot, where it needs one."""
        self.vacate(attempt)
        self.occupy(following)

    def resize(self, settings: AnnealerSettings) -> None:
        """Take over new settings; a run that has begun keeps its slot."""
        if settings.slots != self._settings.slots:
            self._threads.shutdown(wait=False)
            self._threads = ThreadPoolExecutor(max_workers=settings.slots, thread_name_prefix="slot")
        self._settings = settings
        self._running = Running(self._session, settings, self._jigs)
        metrics.SLOTS.set(settings.slots)

    def vacate_all(self) -> None:
        """Nothing is held any more."""
        self._count(-self._busy)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _count(self, change: int) -> None:
        self._busy += change
        metrics.SLOTS_BUSY.set(self._busy)

    def _instant(self, role: Role, jig: str) -> bool:
        """Whether there is nothing to run; ``jig``: that the run is ordered with, or was."""
        return self._jigs[jig].instant and jig == role.jig and "on_transition" not in role.hooks

    # -- running --

    def name_run(self, view: NodeView) -> str:
        """A name for a coming run on a node: sorts by epoch, and is a token that no other claim has."""
        return f"{view.epoch + 1:010d}-{self._token}{next(self._count_of_runs):x}"

    def start(self, attempt: Attempt, done: Callable[[Finished], None], after_seconds: float = 0.0) -> Finished | None:
        """Run the jig of what is held: gives what it came to where there is nothing to run, else ``done`` is called later."""
        if self._instant(attempt.role, attempt.jig):
            return Finished(Failed(attempt.cancel_reason) if attempt.cancel_reason else INSTANT, self._session.now())
        sources = attributes.sources(self._world, attempt.grant.vertex, attempt.role)
        running = self._running

        def work() -> None:
            finished = running.run(attempt, sources, after_seconds)
            if finished is not None:
                self._post(partial(done, finished))

        if self._submit(work):
            return None
        return Finished(Unknown("no thread could be started"), self._session.now())

    def read_wall_again(self, attempt: Attempt, finished: Finished, done: Callable[[Finished], None]) -> bool:
        """Somebody wrote the wall meanwhile: what the jig gave back is to go on top of that.

        False where no thread can be had: nothing is lost, try again later.
        """

        def work() -> None:
            results: list[Change] = []
            try:
                vertex = attempt.grant.vertex
                path = paths.wall(vertex.role, attempt.fqdn)
                if isinstance(finished.outcome, Succeeded) and finished.sent is not None:
                    read = {path: self._session.get(path)}
                    results = attributes.wall_changes(vertex, read, finished.sent, finished.outcome.attributes)
            except Exception as error:  # whatever it is, the outcome stands
                log.warning("%s: %s", attempt.name, error)
                results = list(finished.results)
            self._post(lambda: done(replace(finished, results=results)))

        return self._submit(work)

    def _submit(self, work: Callable[[], None]) -> bool:
        """Whether a thread does it; where none can be started, the pool may still do it later: exactly one of both."""
        ticket: deque[None] = deque([None])

        def redeem() -> None:
            if _taken(ticket):
                work()

        try:
            self._threads.submit(redeem)
        except RuntimeError as error:
            log.warning("no thread for a slot: %s", error)
            return not _taken(ticket)
        return True

    # -- what it comes to --

    def ending(self, attempt: Attempt, finished: Finished, now: float) -> Ending:
        """The changes that an outcome makes; raises Conflict where the state machine refuses it."""
        grant, vertex, outcome = attempt.grant, attempt.grant.vertex, finished.outcome
        role = attempt.role
        run = self._record(grant, finished)
        metrics.RUNS.labels(attempt.jig, run.outcome).inc()
        if isinstance(outcome, Unreachable):
            return self._dead(grant, outcome, run, now)
        if vertex.record.cancel_reason:  # whatever it came to
            moved = apply({vertex: Event.FAIL}, now, by=grant.annealer, reason=vertex.record.cancel_reason)
            return self._of_run(grant, moved, run, Event.FAIL)
        event, more = _event(outcome, grant.record, role, now)
        moved = apply({vertex: event}, now, by=grant.annealer, reason=run.reason)
        if more:
            moved[vertex] = replace(moved[vertex], **more)
        return self._of_run(grant, moved, run, event, finished.results)

    @staticmethod
    def _of_run(
        grant: claim.Grant, moved: dict[Vertex, NodeRole], run: Run, event: Event, results: Sequence[Change] = ()
    ) -> Ending:
        alone = partial(claim.finishing, grant, moved, run, results)
        own = {grant.vertex: moved[grant.vertex]}
        smallest = partial(claim.finishing, grant, own, run, results)
        return Ending(alone, smallest, moved, run, event, may_pass_on=event is Event.SUCCEED)

    def untouched(self, attempt: Attempt, reason: str) -> list[Change]:
        """Give back what was claimed and not begun, as if it had not been: that counts for no attempt."""
        grant, vertex, now = attempt.grant, attempt.grant.vertex, self._session.now()
        moved = apply({vertex: Event.DEFER}, now, by=grant.annealer, reason=reason)
        moved[vertex] = replace(moved[vertex], attempt=grant.record.attempt - 1)
        return claim.finishing(grant, moved, self._record(grant, Finished(Unknown(reason), now)))

    @staticmethod
    def _dead(grant: claim.Grant, outcome: Unreachable, run: Run, now: float) -> Ending:
        reason = f"{outcome.step}: {outcome.reason}"
        if paths.node(grant.fqdn) in grant.vertex.node.world.unreadable:
            released = partial(claim.releasing, grant)
            return Ending(released, released, {}, run, None, may_pass_on=False)
        end = Check(paths.fence(grant.fqdn), grant.fence), Delete(paths.claim(grant.fqdn), grant.claim_version)
        # where the node is not available the noderole stays in TRANSITION: who takes it over accounts for the run
        changes = died(grant.vertex.node, now, reason, by=grant.annealer, ended=(grant.vertex, run), together=end)
        log.warning("%s is not alive: %s", grant.fqdn, reason)
        return Ending(lambda: changes, lambda: changes, {}, run, Event.NODE_DIED, may_pass_on=False)

    @staticmethod
    def _record(grant: claim.Grant, finished: Finished) -> Run:
        outcome = finished.outcome
        told = outcome if isinstance(outcome, Succeeded | Failed) else None
        return Run(
            annealer=grant.annealer,
            started=grant.started,
            ended=finished.ended,
            outcome=type(outcome).__name__.lower(),
            generation=grant.record.generation,
            epoch=grant.epoch,
            exit_code=told.exit_code if told else None,
            reason=_reason(outcome, grant),
            tail=(told.tail or None) if told else None,
            log=f"{socket.gethostname()}:{told.log}" if told and told.log else None,
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
        f"{who}, or ZooKeeper was restored from an older copy. Of nodes that are one machine delete all, then create one again:"
        " its epochs begin above those of the deleted; where another cluster has the machine, let one of both have it. Only when"
        " nobody else gives it orders, and no run goes on there, remove the directory ssh.state_dir on it, and retry"
    )


def _reason(outcome: Outcome, grant: claim.Grant) -> str | None:
    if isinstance(outcome, Fenced):
        taken = f"the machine has taken an order of epoch {outcome.epoch}, and this one was of epoch {grant.epoch}"
        return f"{taken}: {_whose(grant)}"
    if isinstance(outcome, Unreachable):
        return f"{outcome.step}: {outcome.reason}"
    return None if isinstance(outcome, Succeeded) else outcome.reason


def _event(outcome: Outcome, record: NodeRole, role: Role, now: float) -> tuple[Event, dict[str, Any]]:
    """The event of an outcome, and what else it sets in the record."""
    if isinstance(outcome, Succeeded):
        return Event.SUCCEED, {}
    if isinstance(outcome, Lost):
        return Event.LOSE, {"not_before": now + _pause(record, role)}
    done = isinstance(outcome, Failed) and outcome.exit_code == 0  # and what it gave back cannot be kept
    if isinstance(outcome, Failed) and record.attempt <= role.retries and not (done and "destructive" in role.flags):
        return Event.DEFER, {"not_before": now + _pause(record, role)}
    return Event.FAIL, {}


def _pause(record: NodeRole, role: Role) -> float:
    """Seconds from this attempt to the next: doubles with each."""
    doublings = min(max(record.attempt - 1, 0), MOST_DOUBLINGS)
    return float(min(role.backoff_seconds * 2**doublings, LONGEST_BACKOFF_SECONDS))


def _taken(ticket: deque[None]) -> bool:
    """Whether this takes the ticket; False where it is gone already."""
    with contextlib.suppress(IndexError):
        ticket.pop()
        return True
    return False
