"""The nodes that this annealer holds: from the sending of a claim to the answer that gives the node back.

All on the turn thread. An answer that says no, or none at all, makes the cache read again before anything is tried again.
When the session is lost every grant is void at once: its jig is told to leave the run alone, and nothing is written for it.
What this host fails at goes back to the others, with its noderole in TRANSITION (faults).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.agenda import Agenda
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine import claim, instants
from nodepool_ocb.engine.noderole import Event, apply, claimable
from nodepool_ocb.engine.readiness import backoff_left, runnable, unsettled_child
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound, OcbError, Stale
from nodepool_ocb.jigs.jig import Failed, Jig, Unknown, Unreachable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, NodeRole, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.appointments import Appointment, Matter
from nodepool_ocb_annealer.machines.faults import Faults
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.runs.attempts import Attempt, Finished
from nodepool_ocb_annealer.runs.slots import Ending, Working
from nodepool_ocb_annealer.runs.tidying import Tidying

log = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 400  # claims of instant jigs at once: beyond this the server gains nothing
AGAIN_SECONDS: Final = 0.5
COUNT: Final = {event: metrics.TRANSITIONS.labels(event) for event in Event}
FIRST_AGAIN_SECONDS: Final = 0.01  # for an ending that was refused; doubles
LONGEST_AGAIN_SECONDS: Final = 5.0


class Context(Protocol):
    """What holding needs of the annealer."""

    session: Session
    world: World
    agenda: Agenda[Appointment]
    ranking: Ranking
    working: Working
    tidying: Tidying
    judging: Judging
    jigs: dict[str, Jig]
    identity: str
    settings: AnnealerSettings

    @property
    def draining(self) -> bool: ...
    def spoiled(self, path: str, reason: str) -> None: ...
    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None: ...


class Claims:
    """Claims, runs, ends and gives back; one attempt a node."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._attempts: dict[str, Attempt] = {}
        self._carried: dict[str, instants.Carried] = {}  # nodes whose noderoles are being done at once
        self._starved: set[str] = set()  # nodes with work for which there was no slot
        self._crowded: set[str] = set()  # nodes with work that came when MOST_IN_FLIGHT were
        self._ready_since: dict[str, float] = {}  # monotonic
        self._faults = Faults()
        self._refusals = Refusals()
        self._recorded: set[str] = set()  # runs that end with a take-over and have their record already

    @property
    def trouble(self) -> str | None:
        """Why this host is not fit to work, in one sentence."""
        return self._faults.trouble

    def __len__(self) -> int:
        return len(self._attempts) + len(self._carried)

    def runs(self) -> set[str]:
        """The runs that go on here."""
        return {attempt.grant.run for attempt in self._attempts.values()}

    # -- one node --

    def consider(self, fqdn: str) -> None:
        """Claim the next noderole of a node, if there is one, it is our turn, and there is a slot."""
        context = self._context
        view = context.world.nodes.get(fqdn)
        attempt = self._attempts.get(fqdn)
        if attempt is not None and attempt.confirmed and not attempt.writing:
            if self._superseded(attempt):
                self._drop(attempt)  # a person, or the machine's death, took the noderole from under its run
            elif attempt.grant.vertex.record.cancel_reason and not attempt.cancel_reason:
                attempt.cancel(attempt.grant.vertex.record.cancel_reason)  # its slot ends it
        if (
            view is None
            or context.draining
            or not context.session.trusted
            or fqdn in self._attempts
            or fqdn in self._carried
        ):
            return
        if view.claim is not None:
            self._ready_since.pop(fqdn, None)  # ranks count anew from when it is free
            self._give_back(view)
            return
        vertex = self._next(view)
        if vertex is None:
            self._ready_since.pop(fqdn, None)
        elif self._well(fqdn) and self._our_turn(fqdn):
            self._claim(vertex)

    def retry(self, fqdn: str) -> None:
        """Try again to write an ending that was refused; the world has been read meanwhile."""
        attempt = self._attempts.get(fqdn)
        if attempt is not None and attempt.finished is not None and not attempt.writing:
            self._end(attempt, attempt.finished)

    def void(self) -> None:
        """The session is over: nothing is ours any more."""
        for attempt in self._attempts.values():
            attempt.let_go()
            log.warning("%s: the session that claimed it is over; its run is left to whoever attaches", attempt.name)
        self._attempts.clear()
        self._carried.clear()
        self._recorded.clear()
        self._context.working.vacate_all()

    def stop(self) -> None:
        """Tell every jig to leave its run alone; from any thread."""
        for attempt in list(self._attempts.values()):
            attempt.let_go()

    def release(self) -> None:
        """Give back every node: the runs go on, and others attach to them."""
        for attempt in list(self._attempts.values()):
            if not attempt.releasing:
                attempt.releasing = True
                attempt.let_go()
                self._context.send(
                    claim.releasing(attempt.grant), partial(self._released, attempt), f"release of {attempt.name}"
                )

    def _released(self, attempt: Attempt, _: OcbError | None) -> None:
        self._drop(attempt)

    def _next(self, view: NodeView, moved: dict[Vertex, NodeRole] | None = None) -> Vertex | None:
        """The noderole to run next: the least deep in the graph, then by name."""
        context, now = self._context, self._context.session.now()
        planned: Mapping[Vertex, NodeRole] = moved or {}
        candidates: list[Vertex] = []
        for vertex in _claimables(view, planned):
            record = planned.get(vertex, vertex.record)
            if record.state is State.TRANSITION and moved is None and vertex.lacking and not record.cancel_reason:
                self._let_go(vertex)
            elif runnable(context.world, vertex, now, context.jigs, moved):
                candidates.append(vertex)
            elif left := backoff_left(record, now):
                context.agenda.at(time.monotonic() + left, Appointment(Matter.CONSIDER, view.name))
            elif record.state is State.TODO and unsettled_child(vertex, planned) is not None:
                context.agenda.at(time.monotonic() + AGAIN_SECONDS, Appointment(Matter.CONSIDER, view.name))
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        return min(candidates, key=lambda vertex: (context.world.depth(vertex), vertex.name))

    def _our_turn(self, fqdn: str) -> bool:
        now = time.monotonic()
        since = self._ready_since.setdefault(fqdn, now)
        due = since + self._context.ranking.of(fqdn) * self._context.settings.steal_delay_seconds
        if due > now:
            self._context.agenda.at(due, Appointment(Matter.CONSIDER, fqdn))
            return False
        return True

    def _well(self, fqdn: str) -> bool:
        """Whether this host is fit to work on the node, and its claims are not refused; else it looks again later."""
        now, record = time.monotonic(), self._context.world.nodes[fqdn].record
        if self._context.judging.standing.trouble and not (record and record.virtual):
            self._ready_since.pop(fqdn, None)
            return False  # everything is looked at when that is over
        until = self._faults.until(fqdn, now) or self._refusals.until(fqdn, now)
        if until is not None:
            self._ready_since.pop(fqdn, None)
            self._context.agenda.at(until, Appointment(Matter.CONSIDER, fqdn))
        return until is None

    def _claim(self, vertex: Vertex) -> None:
        context = self._context
        fqdn = vertex.node.name
        if len(self) >= MOST_IN_FLIGHT:
            self._crowded.add(fqdn)
            return
        if self._wary or not context.working.room(vertex):
            self._starved.add(fqdn)
            return
        self._ready_since.pop(fqdn, None)
        if self._carry(vertex):
            return
        try:
            grant = claim.take(
                context.world, vertex, context.identity, context.working.name_run(vertex.node), context.session.now()
            )
            changes = claim.claiming(context.world, grant, recorded=vertex.record.run in self._recorded)
        except (Conflict, NotFound) as incomplete:
            self._again(vertex, incomplete)
            return
        attempt = self._attempts[fqdn] = Attempt(grant, context.world.role_of(vertex), context.session.id)
        context.working.occupy(attempt)
        context.send(changes, lambda refused: self._claimed(attempt, refused), f"claim of {attempt.name}")

    # -- noderoles with nothing to run --

    @property
    def identity(self) -> str:
        return self._context.identity

    def name_run(self, view: NodeView) -> str:
        return self._context.working.name_run(view)

    def at_once(self, view: NodeView, moved: Mapping[Vertex, NodeRole]) -> list[Vertex]:
        """The noderoles of a node that may start and have nothing to run, ``moved`` being what is to be written with them.

        Whether the node is free was seen by whoever asks: ``consider`` and ``_next``, or the end of a run on it.
        """
        context, now = self._context, self._context.session.now()
        return [
            vertex
            for vertex in _claimables(view, moved)
            if runnable(context.world, vertex, now, context.jigs, moved) and context.working.instant(vertex)
        ]

    def _carry(self, vertex: Vertex) -> bool:
        """Do all of the node that has nothing to run, if this noderole has nothing to."""
        context = self._context
        if not context.working.instant(vertex):
            return False
        carried = instants.carry(context.world, vertex.node, self, context.session.now())
        if carried is None:
            return False
        self._carried[carried.node] = carried
        context.send(carried.changes, partial(self._written_at_once, vertex, carried), f"claim of {vertex.name}")
        return True

    def _written_at_once(self, vertex: Vertex, carried: instants.Carried, refused: OcbError | None) -> None:
        if self._carried.get(carried.node) is not carried:
            return
        del self._carried[carried.node]
        if refused is not None:
            self._again(vertex, refused)
        else:
            self._refusals.well(carried.node)
            self._count_done(carried)
            self.consider(carried.node)
        self._feed()

    def _count_done(self, carried: instants.Carried) -> None:
        for grant in carried.done:
            COUNT[Event.CLAIM].inc()
            COUNT[Event.SUCCEED].inc()
            metrics.RUNS.labels(grant.jig or "", "succeeded").inc()
            self._context.tidying.ended(grant)

    def _claimed(self, attempt: Attempt, refused: OcbError | None) -> None:
        if self._attempts.get(attempt.fqdn) is not attempt:
            return
        if refused is not None:
            self._drop(attempt)
            before = attempt.grant.vertex.record.run
            own = paths.run(attempt.grant.vertex.role, attempt.fqdn, before) if before else None
            if isinstance(refused, Stale) and refused.path == own and not refused.absent:
                self._recorded.add(str(before))
            self._again(attempt.grant.vertex, refused)
            return
        self._refusals.well(attempt.fqdn)
        attempt.confirmed = True
        COUNT[Event.CLAIM].inc()
        if attempt.grant.previous_epoch is not None:
            metrics.TAKEOVERS.inc()
            log.info("%s: taken over from epoch %d", attempt.name, attempt.grant.previous_epoch)
        self._run(attempt)

    def _again(self, vertex: Vertex, refused: OcbError) -> None:
        """A claim was refused: it is tried later and later, and told once where others are not the reason any more."""
        now = time.monotonic()
        wait = self._refusals.refused(vertex.node.name, now)
        if self._refusals.news(vertex.node.name, str(refused)):
            log.warning("cannot claim %s, and it is tried again: %s", vertex.name, refused)
        self._context.agenda.at(now + wait, Appointment(Matter.CONSIDER, vertex.node.name))

    def _run(self, attempt: Attempt) -> None:
        context = self._context
        if attempt.grant.vertex.record.cancel_reason:  # of the run that is taken over, or since it was claimed
            attempt.cancel(attempt.grant.vertex.record.cancel_reason)
        finished = context.working.start(attempt, lambda ended: self._ended(attempt, ended))
        if finished is not None:
            self._end(attempt, finished)

    # -- the end of a run --

    def _ended(self, attempt: Attempt, finished: Finished) -> None:
        if self._attempts.get(attempt.fqdn) is attempt:
            self._end(attempt, finished)

    def _end(self, attempt: Attempt, finished: Finished) -> None:
        """Write what came of a run, and in the same transaction claim the next noderole of the node."""
        context = self._context
        view = attempt.grant.vertex.node
        if self._attempts.get(attempt.fqdn) is not attempt:
            return
        if self._superseded(attempt):
            self._drop(attempt)
            self._give_back(view)
            return
        if finished.again_after is not None:
            again = context.working.start(attempt, lambda ended: self._ended(attempt, ended), finished.again_after)
            if again is not None:
                self._leave(attempt, again)
            return
        if finished.spoiled is not None:
            self._put_off(attempt, finished.spoiled, getattr(finished.outcome, "reason", ""))
            return
        if isinstance(finished.outcome, Unknown):
            self._leave(attempt, finished)
            return
        if isinstance(finished.outcome, Unreachable) and self._doubted(attempt, finished.outcome):
            return
        if attempt.grant.vertex.unreadable:  # what came of the run is kept until it can be written
            attempt.finished = finished
            context.working.vacate(attempt)
            context.agenda.at(time.monotonic() + LONGEST_AGAIN_SECONDS, Appointment(Matter.WRITE_END, attempt.fqdn))
            return
        try:
            ending = context.working.ending(attempt, finished, context.session.now())
        except Conflict as refused:
            log.error("%s: %s", attempt.name, refused)
            self._drop(attempt)
            self._give_back(view)
            return
        attempt.finished, attempt.writing = finished, True
        following, changes = self._follow(attempt, finished, ending)
        context.send(
            changes,
            lambda refused: self._written(attempt, finished, following, ending.event, refused),
            f"end of {attempt.name}",
        )

    def _doubted(self, attempt: Attempt, outcome: Unreachable) -> bool:
        """Whether it is not known yet if the machine answers others: the node goes back, and one of those attaches."""
        node, judging = attempt.grant.vertex.node.record, self._context.judging
        if node is None or not (node.alive and node.available):
            return False
        reason = f"{outcome.step}: {outcome.reason}"
        if judging.agreed(node):
            judging.refused(attempt.grant.vertex.node, reason)
            if not judging.own_fault(attempt.grant.vertex.node, reason):
                return False
        else:
            judging.suspect(attempt.grant.vertex.node, reason)
        self._faults.unreached(attempt.fqdn, time.monotonic())
        self._back(attempt, reason, untouched=attempt.untouched and attempt.destructive)
        return True

    def _leave(self, attempt: Attempt, finished: Finished) -> None:
        """This host fails at it: the node goes back, its run goes on if it was started, and others attach to it."""
        reason = getattr(finished.outcome, "reason", "")
        log.warning("%s is left to others: %s", attempt.name, reason)
        metrics.HOST_FAULTS.inc()
        self._faults.fault(attempt.fqdn, time.monotonic(), reason)
        self._back(attempt, reason, untouched=attempt.untouched and attempt.destructive)

    def _put_off(self, attempt: Attempt, path: str, reason: str) -> None:
        """Attributes that it would see cannot be read: nothing that sees them is claimed until they can be."""
        self._context.spoiled(path, reason)
        self._context.tidying.ended(attempt.grant, logs=attempt.slot)
        self._back(attempt, reason, untouched=attempt.untouched)

    def _back(self, attempt: Attempt, reason: str, untouched: bool) -> None:
        """Give the node back with a word on why, and the noderole as if it had not been claimed, or in TRANSITION."""
        attempt.releasing = True
        attempt.let_go()
        untouched = untouched and not attempt.grant.vertex.record.cancel_reason
        changes = (
            self._context.working.untouched(attempt, reason) if untouched else claim.leaving(attempt.grant, reason)
        )
        self._context.send(changes, partial(self._released, attempt), f"giving back {attempt.name}")

    def _superseded(self, attempt: Attempt) -> bool:
        """Whether the noderole or the node went on without us: then the result is nobody's any more."""
        context = self._context
        vertex, grant = attempt.grant.vertex, attempt.grant
        record = vertex.record
        return (
            context.world.vertex(vertex.name) is not vertex
            or record.state is not State.TRANSITION
            or record.run != grant.run
            or vertex.node.fence != grant.fence
        )

    def _follow(
        self, attempt: Attempt, finished: Finished, ending: Ending
    ) -> tuple[Attempt | instants.Carried | None, list[Change]]:
        """What comes next on the same node, if anything does, and the transaction that ends this run."""
        context = self._context
        if attempt.smallest:
            return None, ending.smallest()
        if context.draining or not ending.may_pass_on:
            return None, ending.alone()
        grant, view = attempt.grant, attempt.grant.vertex.node
        vertex = self._next(view, ending.moved)
        if vertex is None or not context.working.room(vertex, instead_of=attempt):
            return None, ending.alone()
        if context.working.instant(vertex):
            ended = instants.Ended(grant, ending.moved[grant.vertex], ending.run, finished.results)
            carried = instants.carry(context.world, view, self, context.session.now(), ended)
            return (carried, carried.changes) if carried is not None else (None, ending.alone())
        record = ending.moved.get(vertex, vertex.record)
        run = context.working.name_run(view)
        try:
            following = claim.take_next(context.world, grant, vertex, record, run, context.session.now())
            changes = claim.passing_on(context.world, grant, ending.moved, ending.run, following, finished.results)
        except (Conflict, NotFound):
            return None, ending.alone()
        return Attempt(following, context.world.role_of(vertex), attempt.session), changes

    def _written(
        self,
        attempt: Attempt,
        finished: Finished,
        following: Attempt | instants.Carried | None,
        event: Event | None,
        refused: OcbError | None,
    ) -> None:
        context = self._context
        if self._attempts.get(attempt.fqdn) is not attempt:
            return
        attempt.writing = False
        if isinstance(refused, Invalid):
            self._too_large(attempt, finished, refused)
            return
        if refused is not None:
            self._refused(attempt, finished, refused)
            return
        if event is not None:
            COUNT[event].inc()
        if event is Event.FAIL:
            log.warning("%s is in ERROR: %s", attempt.name, getattr(finished.outcome, "reason", "it was to end"))
        context.tidying.ended(attempt.grant, logs=attempt.slot)
        if attempt.slot and not isinstance(finished.outcome, Unreachable):
            self._faults.well(attempt.fqdn)
            if context.jigs[attempt.jig].attaches:
                context.judging.answered(attempt.grant.vertex.node)
        if not isinstance(following, Attempt):
            if following is not None:
                self._count_done(following)
            self._drop(attempt)
            self.consider(attempt.fqdn)
            return
        COUNT[Event.CLAIM].inc()
        following.confirmed = True
        self._attempts[attempt.fqdn] = following
        context.working.pass_on(attempt, following)
        self._run(following)

    def _too_large(self, attempt: Attempt, finished: Finished, refused: Invalid) -> None:
        """A run is to blame only for what it gave back itself: first its outcome is written without any neighbour."""
        if not attempt.smallest:
            log.warning("%s: its end is written without its neighbours: %s", attempt.name, refused)
            attempt.smallest = True
            self._end(attempt, finished)
        elif finished.results:
            code = getattr(finished.outcome, "exit_code", None)
            self._end(attempt, Finished(Failed(str(refused), code), finished.ended))
        else:
            self._refused(attempt, finished, refused)

    def _refused(self, attempt: Attempt, finished: Finished, refused: OcbError) -> None:
        """Read first: the outcome may be there, or a neighbour moved on, or somebody touched the wall."""
        context = self._context
        attempt.refusals += 1
        wall = isinstance(refused, Stale) and refused.path == paths.wall(attempt.grant.vertex.role, attempt.fqdn)
        if wall and context.working.read_wall_again(attempt, finished, lambda ended: self._ended(attempt, ended)):
            return
        wait = min(FIRST_AGAIN_SECONDS * 2 ** min(attempt.refusals, 10), LONGEST_AGAIN_SECONDS)
        context.agenda.at(time.monotonic() + wait, Appointment(Matter.WRITE_END, attempt.fqdn))

    def _drop(self, attempt: Attempt) -> None:
        """Forget an attempt, and let others have its slot."""
        context = self._context
        attempt.let_go()
        if self._attempts.get(attempt.fqdn) is attempt:
            del self._attempts[attempt.fqdn]
        context.working.vacate(attempt)
        self._feed()

    @property
    def _wary(self) -> bool:
        """Whether this host fails at machine after machine, and tries one at a time."""
        return self._faults.troubled and bool(self._attempts)

    def _feed(self) -> None:
        """Look again at nodes that waited for others, while what they waited for is there: each is looked at once."""
        while self._crowded and len(self) < MOST_IN_FLIGHT:
            self.consider(self._crowded.pop())
        while self._starved and len(self) < MOST_IN_FLIGHT and self._context.working.free and not self._wary:
            self.consider(self._starved.pop())

    def _give_back(self, view: NodeView) -> None:
        """Delete a claim of ours that nothing stands behind: its transaction's answer was lost, or the session that it was
        made in, which may live on though we were told that it is over.
        """
        context = self._context
        if view.claim and view.claim.annealer == context.identity:
            context.send(claim.giving_back(view), lambda _: None, f"giving back {view.name}")

    def _let_go(self, vertex: Vertex) -> None:
        """Nobody runs it, and a parent is not well any more: it is to wait again."""
        context = self._context
        hidden = vertex.unreadable or paths.claim(vertex.node.name) in context.world.unreadable
        if vertex.node.claim is None and not hidden and context.ranking.of(vertex.node.name) == 0:
            now = context.session.now()
            moved = apply({vertex: Event.LOSE}, now, by=context.identity)
            account = claim.accounted(vertex, now, "abandoned", "a parent is not well any more")
            changes = claim.settling(moved, (vertex,), list(account))
            context.send(changes, lambda _: None, f"letting go {vertex.name}")


def _claimables(view: NodeView, moved: Mapping[Vertex, NodeRole]) -> list[Vertex]:
    """The noderoles of a node whose own state lets them be claimed, ``moved`` being what is to be written."""
    turning = [vertex for vertex in moved if vertex.node is view and vertex not in view.ready]
    return [vertex for vertex in [*view.ready, *turning] if claimable(moved.get(vertex, vertex.record))]
