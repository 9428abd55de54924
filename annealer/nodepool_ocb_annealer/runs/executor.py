"""Carries out the instructions of engine.run for the nodes that this annealer holds, and reports the results to it.

All on the turn thread. Before each event of a run, the executor looks at the noderole in the world: it may have moved
on without this run, have a cancel reason, or be unreadable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from msgspec.structs import replace

from nodepool_ocb.engine import claim
from nodepool_ocb.engine import run as machine
from nodepool_ocb.engine.inline_runs import EndedRun, InlineBatch
from nodepool_ocb.engine.noderole import Event as Happened
from nodepool_ocb.engine.run import Do, RunEvent, RunPhase
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict, Invalid, NotFound, OcbError, Stale, TooLarge
from nodepool_ocb.jigs.jig import Boots, Failed, Lost, Succeeded, Unreachable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, NodeRole
from nodepool_ocb.provisioning import boot, publications, publishing
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.machines.faults import Faults
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.runs import conclusions
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.installing import Installer
from nodepool_ocb_annealer.runs.slots import SlotPool
from nodepool_ocb_annealer.runs.tidying import Tidying
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0  # until the machine, or ZooKeeper, is asked once more
COUNT: Final = {event: metrics.TRANSITIONS.labels(event) for event in Happened}


class RunParts(NamedTuple):
    """The parts of an annealer that its claims and their runs share."""

    slots: SlotPool
    tidying: Tidying
    judging: Judging


class ClaimCallbacks(Protocol):
    """The choice of the next noderole, and the reports of its claim. ``Claims`` implements it."""

    def consider(self, fqdn: str) -> None: ...
    def retry_waiting(self) -> None: ...
    def next(self, view: NodeView, moved: dict[Vertex, NodeRole]) -> Vertex | None: ...
    def complete_inline(self, view: NodeView, ended: EndedRun) -> InlineBatch | None: ...
    def inline_completed(self, batch: InlineBatch) -> None: ...
    def claimed(self, fqdn: str) -> None: ...
    def ended(self, vertex: Vertex) -> None: ...
    def refused(self, vertex: Vertex, refused: OcbError) -> None: ...
    def set_aside(self, attempt: Attempt) -> None: ...


class Executor:
    """The runs on the nodes that are held, one for each node."""

    def __init__(self, context: AnnealerContext, parts: RunParts, claims: ClaimCallbacks, faults: Faults) -> None:
        self._context, self._claims, self._faults = context, claims, faults
        self._slots, self._tidying, self._judging = parts
        self._attempts: dict[str, Attempt] = {}
        self.installer = Installer(context, self._answered)
        self._digests: publications.Digests = {}
        self._recorded: set[str] = set()  # runs that end with a take-over and have their record already
        self._carry_out: Mapping[Do, Callable[[Attempt], None]] = {
            Do.START: self._start,
            Do.INSTALL: lambda attempt: self.installer.begin(attempt),
            Do.ABORT: self._abort,
            Do.AGAIN: partial(self._start, after_seconds=AGAIN_SECONDS),
            Do.STOP: lambda attempt: attempt.stop.set(),
            Do.CANCEL: self._end,
            Do.CANCEL_AGAIN: partial(self._end, after_seconds=AGAIN_SECONDS),
            Do.LOSE: self._lose,
            Do.JUDGE: lambda attempt: self._hear(
                attempt, RunEvent.DOUBTED if self._doubted(attempt) else RunEvent.DEAD
            ),
            Do.WRITE: self._write,
            Do.WRITE_ALONE: self._write,
            Do.WRITE_FAILURE: self._write_failure,
            Do.READ_WALL: self._read_wall,
            Do.WAIT: self._wait,
            Do.RECORD: self._record,
            Do.HAND_OVER: self._hand_over,
            Do.LET_GO: Attempt.let_go,
            Do.QUARANTINE: self._quarantine,
            Do.SET_ASIDE: claims.set_aside,
            Do.BLAME_HOST: self._blame_host,
            Do.BLAME_LINK: self._blame_link,
            Do.PUT_BACK: self._put_back,
            Do.LEAVE: self._leave,
            Do.RELEASE: self._release,
            Do.VACATE: parts.slots.vacate,
            Do.FORGET: self._forget,
            Do.FEED: lambda _: claims.retry_waiting(),
            Do.CLAIM_LATER: self._claim_later,
            Do.LOOK: lambda attempt: claims.consider(attempt.fqdn),
        }

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, fqdn: str) -> bool:
        return fqdn in self._attempts

    def runs(self) -> set[str]:
        """The runs that go on here; from any thread."""
        return {attempt.grant.run for attempt in list(self._attempts.values())}

    # -- requests and answers --

    def begin(self, vertex: Vertex) -> None:
        """Claim a noderole; raises Conflict or NotFound where the view is not whole enough to claim from."""
        context, view = self._context, vertex.node
        run = self._slots.name_run(view, vertex.record.check)
        grant = claim.take(context.world, vertex, context.identity, run, context.session.now())
        changes = claim.claiming(context.world, grant, recorded=vertex.record.run in self._recorded)
        attempt = self._attempts[view.name] = self._attempt(grant, context.session.id)
        self._slots.occupy(attempt)
        connections = context.session.connections
        context.send(changes, partial(self._claimed, attempt), f"claim of {attempt.name}")
        self._slots.read_ahead(attempt, connections)

    def look(self, fqdn: str) -> None:
        """Look at the world for the run on a node, if there is one."""
        attempt = self._attempts.get(fqdn)
        if attempt is not None:
            self._look(attempt)
            if attempt.state.phase is RunPhase.BOOTING:
                self.installer.look(attempt)

    def install(self, fqdn: str) -> None:
        """The timer of an installation is due."""
        self.look(fqdn)

    def due(self, fqdn: str) -> None:
        """The timer to write an outcome again is due; the world has been read meanwhile."""
        attempt = self._attempts.get(fqdn)
        if attempt is not None:
            self._hear(attempt, RunEvent.DUE)

    def void(self) -> None:
        """The session is over: nothing is ours any more."""
        for attempt in list(self._attempts.values()):
            log.warning(
                "%s: the session that claimed it is over; its run is left to the annealer that attaches", attempt.name
            )
            self._hear(attempt, RunEvent.SESSION_LOST)
        self._recorded.clear()

    def stop(self) -> None:
        """Tell every jig to leave its run alone; from any thread."""
        for attempt in list(self._attempts.values()):
            attempt.let_go()

    def release(self) -> None:
        """Give back every node: the runs go on, and others attach to them."""
        for attempt in list(self._attempts.values()):
            self._hear(attempt, RunEvent.DRAINED, drained=True)

    def _hear(self, attempt: Attempt, event: RunEvent, **learnt: Any) -> None:
        if event is not RunEvent.SESSION_LOST:
            self._look(attempt)
        self._step(attempt, event, hidden=attempt.grant.vertex.unreadable, **learnt)

    def _look(self, attempt: Attempt) -> None:
        reason = attempt.grant.vertex.record.cancel_reason
        if claim.superseded(self._context.world, attempt.grant):
            self._step(attempt, RunEvent.SUPERSEDED)
        elif reason and not attempt.state.cancel_reason:
            self._step(attempt, RunEvent.CANCEL, cancel_reason=reason)

    def _step(self, attempt: Attempt, event: RunEvent, **learnt: Any) -> None:
        attempt.state, instructions = machine.step(attempt.state, event, **learnt)
        for do in instructions:
            self._carry_out[do](attempt)

    def _answered(self, attempt: Attempt, answer: SlotAnswer) -> None:
        """Handle the answer of a slot."""
        if answer.outcome is not None:
            attempt.answer = answer
        if isinstance(answer.outcome, Boots):
            attempt.wish = answer.outcome.wish
        state = attempt.state
        self._hear(
            attempt,
            answer.event,
            ordered=state.ordered or answer.ordered,
            begun=state.begun or answer.begun,
            returned=bool(answer.results.wall),
        )

    # -- claiming --

    def _attempt(self, grant: claim.Grant, session: int) -> Attempt:
        return Attempt(grant, self._context.world.role_of(grant.vertex), session, self._context.jigs)

    def _claimed(self, attempt: Attempt, refused: OcbError | None) -> None:
        if attempt.state.phase is RunPhase.OVER:
            return
        if refused is None:
            self._claims.claimed(attempt.fqdn)
            self._begun(attempt)
            return
        attempt.refused = refused
        before = attempt.grant.vertex.record.run
        own = paths.run(attempt.grant.vertex.role, attempt.fqdn, before) if before else None
        if isinstance(refused, Stale) and refused.path == own and not refused.absent:
            self._recorded.add(str(before))
        self._hear(attempt, RunEvent.REFUSED)

    def _begun(self, attempt: Attempt) -> None:
        COUNT[Happened.CLAIM].inc()
        if attempt.grant.previous_epoch is not None:
            metrics.TAKEOVERS.inc()
            log.info("%s: taken over from epoch %d", attempt.name, attempt.grant.previous_epoch)
        self._hear(attempt, RunEvent.CLAIMED)

    def _claim_later(self, attempt: Attempt) -> None:
        assert attempt.refused is not None, "REFUSED is heard of those alone"
        self._claims.refused(attempt.grant.vertex, attempt.refused)

    def _hand_over(self, attempt: Attempt) -> None:
        following = attempt.following
        assert isinstance(following, Attempt), "PASSED_ON is heard of those alone"
        following.state = replace(following.state, drained=attempt.state.drained)
        self._attempts[attempt.fqdn] = following
        self._slots.pass_on(attempt, following)
        self._begun(following)

    # -- running --

    def _start(self, attempt: Attempt, after_seconds: float = 0.0) -> None:
        if attempt.grant.vertex.role in boot.PUBLISHING and not attempt.checking:
            attempt.material = publishing.material(self._context.world, attempt.name, self._digests)
        self._slots.start(attempt, partial(self._answered, attempt), after_seconds)

    def _end(self, attempt: Attempt, after_seconds: float = 0.0) -> None:
        done = partial(self._answered, attempt)
        self._slots.end(attempt, attempt.state.cancel_reason, done, after_seconds)

    def _lose(self, attempt: Attempt) -> None:
        epoch = attempt.grant.epoch if attempt.state.ordered else attempt.grant.previous_epoch
        lost = Lost(f"it was started under epoch {epoch}, and its end was not seen")
        self._answered(attempt, SlotAnswer(RunEvent.ENDED, lost, self._context.session.now()))

    def _abort(self, attempt: Attempt) -> None:
        failed = Failed(attempt.state.cancel_reason or "it is to end")
        self._answered(attempt, SlotAnswer(RunEvent.ENDED, failed, self._context.session.now()))

    def _doubted(self, attempt: Attempt) -> bool:
        """Whether it is not known yet if the machine answers others."""
        view, judging, outcome = attempt.grant.vertex.node, self._judging, attempt.answer.outcome
        node = view.record
        if node is None or not (node.alive and node.available) or not isinstance(outcome, Unreachable):
            return False
        if not judging.agreed(node, outcome.party):
            judging.suspect(view, outcome.why)
            return True
        judging.refused(view, outcome.why)
        return judging.own_fault(view, outcome.why)

    # -- the outcome --

    def _write(self, attempt: Attempt) -> None:
        """By itself once it was too large with its neighbours."""
        context, answer = self._context, attempt.answer
        assert answer.outcome is not None, "ENDED and DEAD bring one"
        try:
            results = answer.results.smaller if attempt.state.oversized else answer.results
            results = replace(results, published=self._published(attempt))
            attempt.conclusion = conclusions.conclude(
                attempt.grant, attempt.role, answer.outcome, answer.ended, results, context.session.now()
            )
        except Conflict as refused:
            log.error("%s: %s", attempt.name, refused)
            self._step(attempt, RunEvent.NOT_ALLOWED)
            return
        if attempt.state.oversized:
            attempt.following, changes = None, attempt.conclusion.alone()
        else:
            attempt.following, changes = self._follow(attempt, attempt.conclusion)
        connections = context.session.connections
        context.send(changes, partial(self._written, attempt), f"end of {attempt.name}")
        if isinstance(attempt.following, Attempt):
            self._slots.read_ahead(attempt.following, connections, ended=attempt.grant.vertex)

    def _published(self, attempt: Attempt) -> list[Change]:
        """The records of the documents that a successful run has published; also of a run that was adopted."""
        outcome = attempt.answer.outcome
        if attempt.grant.vertex.role not in boot.PUBLISHING or attempt.checking or not isinstance(outcome, Succeeded):
            return []
        context = self._context
        return publishing.records(context.world, attempt.name, outcome.attributes, context.session.now())

    def _follow(
        self, attempt: Attempt, conclusion: conclusions.Conclusion
    ) -> tuple[Attempt | InlineBatch | None, list[Change]]:
        """The next claim on the same node, if there is one, and the transaction that ends this run."""
        context, grant, view = self._context, attempt.grant, attempt.grant.vertex.node
        if context.resting or not conclusion.passes_on:
            return None, conclusion.together()
        vertex = self._claims.next(view, conclusion.moved)
        if vertex is None or not self._slots.room(vertex, instead_of=attempt):
            return None, conclusion.together()
        if self._slots.instant(vertex):
            ended = EndedRun(grant, conclusion.moved[grant.vertex], conclusion.run, conclusion.results)
            batch = self._claims.complete_inline(view, ended)
            return (batch, batch.changes) if batch is not None else (None, conclusion.together())
        record = conclusion.moved.get(vertex, vertex.record)
        try:
            run = self._slots.name_run(view, record.check)
            following = claim.take_next(context.world, grant, vertex, record, run, context.session.now())
            changes = claim.passing_on(
                context.world, grant, conclusion.moved, conclusion.run, following, conclusion.results
            )
        except (Conflict, NotFound):
            return None, conclusion.together()
        return self._attempt(following, attempt.session), changes

    def _written(self, attempt: Attempt, refused: OcbError | None) -> None:
        attempt.refused = refused
        key = attempt.grant.vertex.role, attempt.fqdn
        if refused is None:
            event = RunEvent.PASSED_ON if isinstance(attempt.following, Attempt) else RunEvent.WRITTEN
        elif isinstance(refused, Invalid):
            event = RunEvent.TOO_LARGE if isinstance(refused, TooLarge) else RunEvent.UNWRITABLE
            if not attempt.state.oversized + attempt.state.unwritable:  # once: it may be tried for long
                log.warning("%s: its end cannot be written: %s", attempt.name, refused)
        elif isinstance(refused, Stale) and refused.path in (paths.wall(*key), paths.given(*key)):
            event = RunEvent.WALL_CHANGED
        else:
            event = RunEvent.REFUSED
        self._hear(attempt, event)

    def _write_failure(self, attempt: Attempt) -> None:
        """Record the run as failed because its returned attributes were too large."""
        answer = attempt.answer
        attempt.answer = SlotAnswer(RunEvent.ENDED, conclusions.unkept(answer.outcome, attempt.refused), answer.ended)
        self._write(attempt)

    def _read_wall(self, attempt: Attempt) -> None:
        if not self._slots.read_wall(attempt, attempt.answer, partial(self._answered, attempt)):
            self._wait(attempt)

    def _wait(self, attempt: Attempt) -> None:
        self._context.timers.at(time.monotonic() + attempt.state.wait_seconds, Timer(TimerKind.WRITE_END, attempt.fqdn))

    def _record(self, attempt: Attempt) -> None:
        context, conclusion, outcome = self._context, attempt.conclusion, attempt.answer.outcome
        assert conclusion is not None, "it is written"
        metrics.RUNS.labels(attempt.jig, conclusion.run.outcome).inc()
        if conclusion.event is not None:
            COUNT[conclusion.event].inc()
        if conclusion.event is Happened.FAIL:
            log.warning("%s is in ERROR: %s", attempt.name, attempt.answer.reason or "it was to end")
        if conclusion.event is Happened.NODE_DIED:
            log.warning("%s is not alive: %s", attempt.fqdn, conclusion.run.reason)
        self._tidying.ended(attempt.grant, logs=attempt.slot)
        self._claims.ended(attempt.grant.vertex)
        if attempt.slot and not isinstance(outcome, Unreachable):
            self._faults.well(attempt.fqdn)
            if context.jigs[attempt.jig].attaches:
                self._judging.answered(attempt.grant.vertex.node)
        if isinstance(attempt.following, InlineBatch):
            self._claims.inline_completed(attempt.following)

    # -- giving back --

    def _quarantine(self, attempt: Attempt) -> None:
        self._context.spoiled(attempt.answer.spoiled, attempt.answer.reason)
        self._tidying.ended(attempt.grant, logs=attempt.slot)

    def _blame_host(self, attempt: Attempt) -> None:
        reason = attempt.answer.reason
        log.warning("%s is left to others: %s", attempt.name, reason)
        if attempt.answer.foreign:
            self._blame_link(attempt)
            return
        metrics.HOST_FAULTS.inc()
        if getattr(attempt.answer.outcome, "reaching", False):  # a probe finds that it is over
            self._judging.unfit(attempt.fqdn, reason, lacking=False, certain=True)
            self._blame_link(attempt)
        else:
            role = attempt.grant.vertex.role if attempt.answer.recorded else None
            self._faults.fault(attempt.fqdn, time.monotonic(), reason, role)

    def _blame_link(self, attempt: Attempt) -> None:
        self._faults.unreached(attempt.fqdn, time.monotonic())

    def _put_back(self, attempt: Attempt) -> None:
        reason = attempt.answer.reason or "its annealer ended before it began"
        now = self._context.session.now()
        self._give_back(attempt, conclusions.put_back(attempt.grant, reason, now, attempt.pause_seconds))

    def _leave(self, attempt: Attempt) -> None:
        self._give_back(attempt, claim.leaving(attempt.grant, attempt.answer.reason))

    def _release(self, attempt: Attempt) -> None:
        self._give_back(attempt, claim.releasing(attempt.grant))

    def _give_back(self, attempt: Attempt, changes: list[Change]) -> None:
        def released(refused: OcbError | None) -> None:
            if refused is not None:  # our claim may stand, with nothing behind it
                self._context.timers.at(time.monotonic() + AGAIN_SECONDS, Timer(TimerKind.CONSIDER, attempt.fqdn))
            self._step(attempt, RunEvent.RELEASED)

        self._context.send(changes, released, f"giving back {attempt.name}")

    def _forget(self, attempt: Attempt) -> None:
        attempt.let_go()
        self.installer.forget(attempt)
        if self._attempts.get(attempt.fqdn) is attempt:
            del self._attempts[attempt.fqdn]
        self._slots.vacate(attempt)
