"""The nodes that this annealer holds: from the sending of a claim to the answer that gives the node back.

All on the turn thread. An answer that says no, or none at all, makes the cache read again before anything is tried again.
When the session is lost every hold is void at once: its jig is told to leave the run alone, and nothing is written for it.
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
from nodepool_ocb_annealer.machines.faults import Faults
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.runs.attempts import Finished, Held
from nodepool_ocb_annealer.runs.slots import Ending, Working
from nodepool_ocb_annealer.runs.tidying import Tidying

log = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 400  # claims of instant jigs at once: beyond this the server gains nothing
AGAIN_SECONDS: Final = 0.5
COUNT: Final = {event: metrics.TRANSITIONS.labels(event) for event in Event}
FIRST_AGAIN_SECONDS: Final = 0.01  # for an ending that was refused; doubles
LONGEST_AGAIN_SECONDS: Final = 5.0


class Site(Protocol):
    """What holding needs of the annealer."""

    session: Session
    world: World
    agenda: Agenda
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


class Holding:
    """Claims, runs, ends and gives back; one hold a node."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._held: dict[str, Held] = {}
        self._carried: dict[str, instants.Carried] = {}  # nodes whose noderoles are being done at once
        self._starved: set[str] = set()  # nodes with work for which there was no slot
        self._ready_since: dict[str, float] = {}  # monotonic
        self._faults = Faults()
        self._refusals = Refusals()
        self._recorded: set[str] = set()  # runs that end with a take-over and have their record already

    @property
    def trouble(self) -> str | None:
        """Why this host is not fit to work, in one sentence."""
        return self._faults.trouble

    def __len__(self) -> int:
        return len(self._held) + len(self._carried)

    def runs(self) -> set[str]:
        """The runs that go on here."""
        return {held.hold.run for held in self._held.values()}

    # -- one node --

    def consider(self, fqdn: str) -> None:
        """Claim the next noderole of a node, if there is one, it is our turn, and there is a slot."""
        site = self._site
        view = site.world.nodes.get(fqdn)
        held = self._held.get(fqdn)
        if held is not None and held.confirmed and not held.writing:
            if self._superseded(held):
                self._drop(held)  # a person, or the machine's death, took the noderole from under its run
            elif held.hold.vertex.record.ending and not held.ending:
                held.end(held.hold.vertex.record.ending)  # its slot ends it
        if view is None or site.draining or not site.session.trusted or fqdn in self._held or fqdn in self._carried:
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
        held = self._held.get(fqdn)
        if held is not None and held.finished is not None and not held.writing:
            self._end(held, held.finished)

    def void(self) -> None:
        """The session is over: nothing is ours any more."""
        for held in self._held.values():
            held.let_go()
            log.warning("%s: the session that claimed it is over; its run is left to whoever attaches", held.name)
        self._held.clear()
        self._carried.clear()
        self._recorded.clear()
        self._site.working.vacate_all()

    def stop(self) -> None:
        """Tell every jig to leave its run alone; from any thread."""
        for held in list(self._held.values()):
            held.let_go()

    def release(self) -> None:
        """Give back every node: the runs go on, and others attach to them."""
        for held in list(self._held.values()):
            if not held.releasing:
                held.releasing = True
                held.let_go()
                self._site.send(claim.releasing(held.hold), partial(self._released, held), f"release of {held.name}")

    def _released(self, held: Held, _: OcbError | None) -> None:
        self._drop(held)

    def _next(self, view: NodeView, moved: dict[Vertex, NodeRole] | None = None) -> Vertex | None:
        """The noderole to run next: the least deep in the graph, then by name."""
        site, now = self._site, self._site.session.now()
        planned: Mapping[Vertex, NodeRole] = moved or {}
        candidates: list[Vertex] = []
        for vertex in _claimables(view, planned):
            record = planned.get(vertex, vertex.record)
            if record.state is State.TRANSITION and moved is None and vertex.lacking and not record.ending:
                self._let_go(vertex)
            elif runnable(site.world, vertex, now, site.jigs, moved):
                candidates.append(vertex)
            elif left := backoff_left(record, now):
                site.agenda.at(time.monotonic() + left, ("consider", view.name))
            elif record.state is State.TODO and unsettled_child(vertex, planned) is not None:
                site.agenda.at(time.monotonic() + AGAIN_SECONDS, ("consider", view.name))
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        return min(candidates, key=lambda vertex: (site.world.depth(vertex), vertex.name))

    def _our_turn(self, fqdn: str) -> bool:
        now = time.monotonic()
        since = self._ready_since.setdefault(fqdn, now)
        due = since + self._site.ranking.of(fqdn) * self._site.settings.steal_delay_seconds
        if due > now:
            self._site.agenda.at(due, ("consider", fqdn))
            return False
        return True

    def _well(self, fqdn: str) -> bool:
        """Whether this host is fit to work on the node, and its claims are not refused; else it looks again later."""
        now, record = time.monotonic(), self._site.world.nodes[fqdn].record
        if self._site.judging.standing.trouble and not (record and record.virtual):
            self._ready_since.pop(fqdn, None)
            return False  # everything is looked at when that is over
        until = self._faults.until(fqdn, now) or self._refusals.until(fqdn, now)
        if until is not None:
            self._ready_since.pop(fqdn, None)
            self._site.agenda.at(until, ("consider", fqdn))
        return until is None

    def _claim(self, vertex: Vertex) -> None:
        site = self._site
        fqdn = vertex.node.name
        room = site.working.room(vertex) and not (self._faults.troubled and self._held)
        if not room or len(self) >= MOST_IN_FLIGHT:
            self._starved.add(fqdn)
            return
        self._ready_since.pop(fqdn, None)
        if self._carry(vertex):
            return
        try:
            hold = claim.take(site.world, vertex, site.identity, site.working.name_run(vertex.node), site.session.now())
            changes = claim.claiming(site.world, hold, recorded=vertex.record.run in self._recorded)
        except (Conflict, NotFound) as incomplete:
            self._again(vertex, incomplete)
            return
        held = self._held[fqdn] = Held(hold, site.world.role_of(vertex), site.session.id)
        site.working.occupy(held)
        site.send(changes, lambda refused: self._claimed(held, refused), f"claim of {held.name}")

    # -- noderoles with nothing to run --

    @property
    def identity(self) -> str:
        return self._site.identity

    def name_run(self, view: NodeView) -> str:
        return self._site.working.name_run(view)

    def at_once(self, view: NodeView, moved: Mapping[Vertex, NodeRole]) -> list[Vertex]:
        """The noderoles of a node that may start and have nothing to run, ``moved`` being what is to be written with them."""
        site, now = self._site, self._site.session.now()
        return [
            vertex
            for vertex in _claimables(view, moved)
            if runnable(site.world, vertex, now, site.jigs, moved) and site.working.instant(vertex)
        ]

    def _carry(self, vertex: Vertex) -> bool:
        """Do all of the node that has nothing to run, if this noderole has nothing to."""
        site = self._site
        if not site.working.instant(vertex):
            return False
        carried = instants.carry(site.world, vertex.node, self, site.session.now())
        if carried is None:
            return False
        self._carried[carried.node] = carried
        site.send(carried.changes, partial(self._written_at_once, vertex, carried), f"claim of {vertex.name}")
        return True

    def _written_at_once(self, vertex: Vertex, carried: instants.Carried, refused: OcbError | None) -> None:
        if self._carried.get(carried.node) is not carried:
            return
        del self._carried[carried.node]
        if refused is not None:
            self._again(vertex, refused)
            return
        self._refusals.well(carried.node)
        self._count_done(carried)
        self.consider(carried.node)
        self._feed()

    def _count_done(self, carried: instants.Carried) -> None:
        for hold in carried.done:
            COUNT[Event.CLAIM].inc()
            COUNT[Event.SUCCEED].inc()
            metrics.RUNS.labels(hold.jig or "", "succeeded").inc()
            self._site.tidying.ended(hold)

    def _claimed(self, held: Held, refused: OcbError | None) -> None:
        if self._held.get(held.fqdn) is not held:
            return
        if refused is not None:
            self._drop(held)
            before = held.hold.vertex.record.run
            own = paths.run(held.hold.vertex.role, held.fqdn, before) if before else None
            if isinstance(refused, Stale) and refused.path == own and not refused.absent:
                self._recorded.add(str(before))
            self._again(held.hold.vertex, refused)
            return
        self._refusals.well(held.fqdn)
        held.confirmed = True
        COUNT[Event.CLAIM].inc()
        if held.hold.previous_epoch is not None:
            metrics.TAKEOVERS.inc()
            log.info("%s: taken over from epoch %d", held.name, held.hold.previous_epoch)
        self._run(held)

    def _again(self, vertex: Vertex, refused: OcbError) -> None:
        """A claim was refused: it is tried later and later, and told once where others are not the reason any more."""
        now = time.monotonic()
        wait = self._refusals.refused(vertex.node.name, now)
        if self._refusals.news(vertex.node.name, str(refused)):
            log.warning("cannot claim %s, and it is tried again: %s", vertex.name, refused)
        self._site.agenda.at(now + wait, ("consider", vertex.node.name))

    def _run(self, held: Held) -> None:
        site = self._site
        if held.hold.vertex.record.ending:  # of the run that is taken over, or since it was claimed
            held.end(held.hold.vertex.record.ending)
        finished = site.working.start(held, lambda ended: self._ended(held, ended))
        if finished is not None:
            self._end(held, finished)

    # -- the end of a run --

    def _ended(self, held: Held, finished: Finished) -> None:
        if self._held.get(held.fqdn) is held:
            self._end(held, finished)

    def _end(self, held: Held, finished: Finished) -> None:
        """Write what came of a run, and in the same transaction claim the next noderole of the node."""
        site = self._site
        view = held.hold.vertex.node
        if self._held.get(held.fqdn) is not held:
            return
        if self._superseded(held):
            self._drop(held)
            self._give_back(view)
            return
        if finished.again_after is not None:
            again = site.working.start(held, lambda ended: self._ended(held, ended), finished.again_after)
            if again is not None:
                self._leave(held, again)
            return
        if finished.spoiled is not None:
            self._put_off(held, finished.spoiled, getattr(finished.outcome, "reason", ""))
            return
        if isinstance(finished.outcome, Unknown):
            self._leave(held, finished)
            return
        if isinstance(finished.outcome, Unreachable) and self._doubted(held, finished.outcome):
            return
        if held.hold.vertex.unreadable:  # what came of the run is kept until it can be written
            held.finished = finished
            site.working.vacate(held)
            site.agenda.at(time.monotonic() + LONGEST_AGAIN_SECONDS, ("end", held.fqdn))
            return
        try:
            ending = site.working.ending(held, finished, site.session.now())
        except Conflict as refused:
            log.error("%s: %s", held.name, refused)
            self._drop(held)
            self._give_back(view)
            return
        held.finished, held.writing = finished, True
        following, changes = self._follow(held, finished, ending)
        site.send(
            changes,
            lambda refused: self._written(held, finished, following, ending.event, refused),
            f"end of {held.name}",
        )

    def _doubted(self, held: Held, outcome: Unreachable) -> bool:
        """Whether it is not known yet if the machine answers others: the node goes back, and one of those attaches."""
        node, judging = held.hold.vertex.node.record, self._site.judging
        if node is None or not (node.alive and node.available):
            return False
        reason = f"{outcome.step}: {outcome.reason}"
        if judging.agreed(node):
            judging.refused(held.hold.vertex.node, reason)
            if not judging.own_fault(held.hold.vertex.node, reason):
                return False
        else:
            judging.suspect(held.hold.vertex.node, reason)
        self._faults.unreached(held.fqdn, time.monotonic())
        self._back(held, reason, untouched=held.untouched and held.destructive)
        return True

    def _leave(self, held: Held, finished: Finished) -> None:
        """This host fails at it: the node goes back, its run goes on if it was started, and others attach to it."""
        reason = getattr(finished.outcome, "reason", "")
        log.warning("%s is left to others: %s", held.name, reason)
        metrics.HOST_FAULTS.inc()
        self._faults.fault(held.fqdn, time.monotonic(), reason)
        self._back(held, reason, untouched=held.untouched and held.destructive)

    def _put_off(self, held: Held, path: str, reason: str) -> None:
        """Attributes that it would see cannot be read: nothing that sees them is claimed until they can be."""
        self._site.spoiled(path, reason)
        self._site.tidying.ended(held.hold, logs=held.slot)
        self._back(held, reason, untouched=held.untouched)

    def _back(self, held: Held, reason: str, untouched: bool) -> None:
        """Give the node back with a word on why, and the noderole as if it had not been claimed, or in TRANSITION."""
        held.releasing = True
        held.let_go()
        untouched = untouched and not held.hold.vertex.record.ending
        changes = self._site.working.untouched(held, reason) if untouched else claim.leaving(held.hold, reason)
        self._site.send(changes, partial(self._released, held), f"giving back {held.name}")

    def _superseded(self, held: Held) -> bool:
        """Whether the noderole or the node went on without us: then the result is nobody's any more."""
        site = self._site
        vertex, hold = held.hold.vertex, held.hold
        record = vertex.record
        return (
            site.world.vertex(vertex.name) is not vertex
            or record.state is not State.TRANSITION
            or record.run != hold.run
            or vertex.node.fence != hold.fence
        )

    def _follow(
        self, held: Held, finished: Finished, ending: Ending
    ) -> tuple[Held | instants.Carried | None, list[Change]]:
        """What comes next on the same node, if anything does, and the transaction that ends this run."""
        site = self._site
        if held.smallest:
            return None, ending.smallest()
        if site.draining or not ending.may_pass_on:
            return None, ending.alone()
        hold, view = held.hold, held.hold.vertex.node
        vertex = self._next(view, ending.moved)
        if vertex is None or not site.working.room(vertex, instead_of=held):
            return None, ending.alone()
        if site.working.instant(vertex):
            ended = instants.Ended(hold, ending.moved[hold.vertex], ending.run, finished.results)
            carried = instants.carry(site.world, view, self, site.session.now(), ended)
            return (carried, carried.changes) if carried is not None else (None, ending.alone())
        record = ending.moved.get(vertex, vertex.record)
        run = site.working.name_run(view)
        try:
            following = claim.take_next(site.world, hold, vertex, record, run, site.session.now())
            changes = claim.passing_on(site.world, hold, ending.moved, ending.run, following, finished.results)
        except (Conflict, NotFound):
            return None, ending.alone()
        return Held(following, site.world.role_of(vertex), held.session), changes

    def _written(
        self,
        held: Held,
        finished: Finished,
        following: Held | instants.Carried | None,
        event: Event | None,
        refused: OcbError | None,
    ) -> None:
        site = self._site
        if self._held.get(held.fqdn) is not held:
            return
        held.writing = False
        if isinstance(refused, Invalid):
            self._too_large(held, finished, refused)
            return
        if refused is not None:
            self._refused(held, finished, refused)
            return
        if event is not None:
            COUNT[event].inc()
        if event is Event.FAIL:
            log.warning("%s is in ERROR: %s", held.name, getattr(finished.outcome, "reason", "it was to end"))
        site.tidying.ended(held.hold, logs=held.slot)
        if held.slot and not isinstance(finished.outcome, Unreachable):
            self._faults.well(held.fqdn)
            if site.jigs[held.jig].attaches:
                site.judging.answered(held.hold.vertex.node)
        if not isinstance(following, Held):
            if following is not None:
                self._count_done(following)
            self._drop(held)
            self.consider(held.fqdn)
            return
        COUNT[Event.CLAIM].inc()
        following.confirmed = True
        self._held[held.fqdn] = following
        site.working.pass_on(held, following)
        self._run(following)

    def _too_large(self, held: Held, finished: Finished, refused: Invalid) -> None:
        """A run is to blame only for what it gave back itself: first its outcome is written without any neighbour."""
        if not held.smallest:
            log.warning("%s: its end is written without its neighbours: %s", held.name, refused)
            held.smallest = True
            self._end(held, finished)
        elif finished.results:
            code = getattr(finished.outcome, "exit_code", None)
            self._end(held, Finished(Failed(str(refused), code), finished.ended))
        else:
            self._refused(held, finished, refused)

    def _refused(self, held: Held, finished: Finished, refused: OcbError) -> None:
        """Read first: the outcome may be there, or a neighbour moved on, or somebody touched the wall."""
        site = self._site
        held.refusals += 1
        wall = isinstance(refused, Stale) and refused.path == paths.wall(held.hold.vertex.role, held.fqdn)
        if wall and site.working.read_wall_again(held, finished, lambda ended: self._ended(held, ended)):
            return
        wait = min(FIRST_AGAIN_SECONDS * 2 ** min(held.refusals, 10), LONGEST_AGAIN_SECONDS)
        site.agenda.at(time.monotonic() + wait, ("end", held.fqdn))

    def _drop(self, held: Held) -> None:
        """Forget a hold, and let others have its slot."""
        site = self._site
        held.let_go()
        if self._held.get(held.fqdn) is held:
            del self._held[held.fqdn]
        site.working.vacate(held)
        self._feed()

    def _feed(self) -> None:
        """Look again at nodes for which there was no slot."""
        while self._starved and len(self) < MOST_IN_FLIGHT and self._site.working.free:
            self.consider(self._starved.pop())

    def _give_back(self, view: NodeView) -> None:
        """Delete a claim of ours that nothing stands behind: its transaction's answer was lost, or the session that it was
        made in, which may live on though we were told that it is over.
        """
        site = self._site
        if view.claim and view.claim.annealer == site.identity:
            site.send(claim.giving_back(view), lambda _: None, f"giving back {view.name}")

    def _let_go(self, vertex: Vertex) -> None:
        """Nobody runs it, and a parent is not well any more: it is to wait again."""
        site = self._site
        hidden = vertex.unreadable or paths.claim(vertex.node.name) in site.world.unreadable
        if vertex.node.claim is None and not hidden and site.ranking.of(vertex.node.name) == 0:
            now = site.session.now()
            moved = apply({vertex: Event.LOSE}, now, by=site.identity)
            account = claim.accounted(vertex, now, "abandoned", "a parent is not well any more")
            changes = claim.settling(moved, (vertex,), list(account))
            site.send(changes, lambda _: None, f"letting go {vertex.name}")


def _claimables(view: NodeView, moved: Mapping[Vertex, NodeRole]) -> list[Vertex]:
    """The noderoles of a node whose own state lets them be claimed, ``moved`` being what is to be written."""
    turning = [vertex for vertex in moved if vertex.node is view and vertex not in view.ready]
    return [vertex for vertex in [*view.ready, *turning] if claimable(moved.get(vertex, vertex.record))]
