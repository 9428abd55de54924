"""One turn of the annealer: read what changed, decide, send transactions; all state here is a cache and can be lost.

Everything runs on the turn thread. Answers of ZooKeeper, jigs, probes and hooks come in through ``post`` as calls to make
at the start of the next turn. ``holds`` are the nodes that this annealer works on: from the sending of the claim to the
answer that gave the node back. When the session is lost all of them are void at once: their jigs are told to stop, and
nothing is written for them.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from msgspec.structs import replace

from nodepool_ocb import claim, metrics
from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.errors import Conflict, Invalid, NotFound, OcbError, Stale, Unavailable
from nodepool_ocb.hindrance import runnable
from nodepool_ocb.jigs.jig import Failed, Jig
from nodepool_ocb.jigs.probe import Prober
from nodepool_ocb.model import Change, Create, Daemon, NodeRole, Set, State
from nodepool_ocb.noderole import Event, apply, settle, settled, with_hooks
from nodepool_ocb.store import paths
from nodepool_ocb.store.cache import Cache
from nodepool_ocb.store.session import Session, ZnodeStat
from nodepool_ocb.store.tree import Touched
from nodepool_ocb.world import NodeView, Vertex, World
from nodepool_ocb_annealer.agenda import Agenda
from nodepool_ocb_annealer.hooking import Hooking
from nodepool_ocb_annealer.probing import Probing
from nodepool_ocb_annealer.ranking import Ranking
from nodepool_ocb_annealer.working import Ending, Finished, Held, Working

log = logging.getLogger(__name__)

CLAIMABLE: Final = frozenset({State.TODO, State.TRANSITION, State.ACTIVE})
MOST_IN_FLIGHT: Final = 400  # claims of instant jigs at once: beyond this the server gains nothing
SETTLING_SECONDS: Final = 0.1  # who wrote a change settles it too; only what stays unsettled is ours to mend
AGAIN_SECONDS: Final = 0.5


class Annealer:
    """The annealer's mind. ``turn`` is to be called whenever ``wake`` is set, or after the seconds that it gave."""

    def __init__(
        self,
        session: Session,
        settings: AnnealerSettings,
        jigs: dict[str, Jig],
        prober: Prober | None,
        identity: str,
        daemon: Daemon,
    ) -> None:
        self.wake = threading.Event()
        self.stop = threading.Event()  # set by a signal: drain, then end
        self.world = World()
        self.identity, self.settings, self.daemon = identity, settings, daemon
        self.jigs, self.prober = jigs, prober
        self.session = session
        self.cache = Cache(session, self.world, self.wake.set)
        self.ranking = Ranking(identity)
        self.agenda = Agenda()
        self.holds: dict[str, Held] = {}
        self.working = Working(session, self.world, settings, jigs, self.post)
        self.probing = Probing(self)
        self.hooking = Hooking(self)
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._starved: set[str] = set()  # nodes with work for which there was no slot
        self._ready_since: dict[str, float] = {}
        self._again: list[tuple[Held, Finished]] = []  # endings that could not be written yet
        self._session = 0  # the session in which the cache was loaded
        self._draining_since: float | None = None

    # -- from other threads --

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made on the turn thread."""
        self._inbox.put(call)
        self.wake.set()

    def lost(self) -> None:
        """The session is over: every claim is void now, before the next turn. Called on the connection thread."""
        for held in list(self.holds.values()):
            held.stop.set()
        self.wake.set()

    # -- the turn --

    def turn(self) -> float:
        """Read, decide, send; gives the seconds until the next turn is due by itself."""
        self._take_posted()
        if self.stop.is_set():
            self._drain()
        if not self.session.trusted:
            return AGAIN_SECONDS
        try:
            self._look(self._load() if self.session.id != self._session else self.cache.refresh())
            self._meet(time.monotonic())
        except Unavailable as gone:
            log.warning("ZooKeeper: %s", gone)
            return AGAIN_SECONDS
        return self.agenda.seconds(time.monotonic(), at_most=self.settings.sweep_seconds)

    def _take_posted(self) -> None:
        while True:
            try:
                call = self._inbox.get_nowait()
            except Empty:
                return
            call()

    def _load(self) -> Touched:
        """A new session: what was held is void, and everything is read anew."""
        for held in self.holds.values():
            held.stop.set()
            log.warning("%s: the session in which it was claimed is over; its run is left to whoever attaches", held.name)
        self.holds.clear()
        self._again.clear()
        self.working.vacate_all()
        session = self.session.id
        self._register()
        touched = self.cache.load()
        self._session = session
        self.agenda.at(time.monotonic() + self._sweep_seconds(), ("sweep", ""))
        return touched

    def _register(self) -> None:
        path = paths.daemon("annealer", self.identity)
        self.session.ensure(paths.daemons("annealer"))
        try:
            self.session.commit([Create(path, self.daemon, ephemeral=True)])
        except Stale:
            znode = self.session.get(path)
            if znode is None or znode.ephemeral_owner != self.session.id:
                raise Unavailable(f"{path} is still there from the session before; it goes with that") from None

    def _look(self, touched: Touched) -> None:
        for held, finished in self._retries():
            self._end(held, finished)
        affected = set(touched.nodes)
        for vertex in touched.vertices:
            self._mind_settling(vertex)
        if self.ranking.among(self.world.annealers) or touched.roles or touched.deployments:
            affected.update(self.world.nodes)
            self.probing.plan(self.world.nodes)
        self.hooking.look(touched)
        self.probing.plan(touched.nodes)
        for fqdn in affected:
            self.consider(fqdn)

    def _retries(self) -> list[tuple[Held, Finished]]:
        again, self._again = self._again, []
        return again

    def _meet(self, now: float) -> None:
        unsettled: list[Vertex] = []
        for what, whom in self.agenda.due(now):
            if what == "consider":
                self.consider(whom)
            elif what == "settle":
                vertex = self.world.vertex(whom)
                if vertex is not None and self._unsettled(vertex):
                    unsettled.append(vertex)
            elif what == "sweep":
                metrics.SWEEPS.inc()
                self._look(self.cache.sweep())
                self.agenda.at(time.monotonic() + self._sweep_seconds(), ("sweep", ""))
            elif what == "probe":
                self.probing.probe(whom)
            else:
                self.hooking.keep(what, whom)
        self._settle(unsettled)

    def _sweep_seconds(self) -> float:
        return self.settings.sweep_seconds * random.uniform(0.9, 1.1)

    # -- settling what nobody settled --

    def _mind_settling(self, vertex: Vertex) -> None:
        for each in (vertex, *vertex.children):
            if self._unsettled(each):
                wait = SETTLING_SECONDS + self.ranking.of(each.node.name) * self.settings.steal_delay_seconds
                self.agenda.at(time.monotonic() + wait, ("settle", each.name))

    @staticmethod
    def _unsettled(vertex: Vertex) -> bool:
        return settled(vertex.record, vertex.waiting, 0.0) is not vertex.record

    def _settle(self, unsettled: list[Vertex]) -> None:
        """Write what the rule about neighbours says, where whoever moved them did not come to it."""
        for start in range(0, len(unsettled), 100):
            part = unsettled[start : start + 100]
            moved = with_hooks(settle({}, time.time(), also=part))
            self.send(list(claim.settling(moved)), lambda _: None, "settling")

    # -- one node --

    def consider(self, fqdn: str) -> None:
        """Claim the next noderole of a node, if there is one, it is our turn, and there is a slot."""
        view = self.world.nodes.get(fqdn)
        if view is None or fqdn in self.holds or self._draining_since is not None or not self.session.trusted:
            return
        if view.claim is not None:
            if view.claim.annealer == self.identity:
                self._give_back(view)
            return
        vertex = self._next(view)
        if vertex is None:
            self._ready_since.pop(fqdn, None)
        elif self._our_turn(fqdn):
            self._claim(vertex)

    def _next(self, view: NodeView, moved: dict[Vertex, NodeRole] | None = None) -> Vertex | None:
        """The noderole to run next: the least deep in the graph, then by name."""
        now, planned = time.time(), moved or {}
        candidates: list[Vertex] = []
        for vertex in view.noderoles.values():
            record = planned.get(vertex, vertex.record)
            if record.state not in CLAIMABLE or (record.state is State.ACTIVE and not record.refresh):
                continue
            if record.state is State.TRANSITION and moved is None and vertex.waiting:
                self._let_go(vertex)
            elif runnable(self.world, vertex, now, self.jigs, record if moved is not None else None):
                candidates.append(vertex)
            elif record.not_before > now:
                self.agenda.at(time.monotonic() + record.not_before - now, ("consider", view.name))
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        return min(candidates, key=lambda vertex: (self.world.depth(vertex), vertex.name))

    def _our_turn(self, fqdn: str) -> bool:
        now = time.monotonic()
        since = self._ready_since.setdefault(fqdn, now)
        due = since + self.ranking.of(fqdn) * self.settings.steal_delay_seconds
        if due > now:
            self.agenda.at(due, ("consider", fqdn))
            return False
        return True

    def _claim(self, vertex: Vertex) -> None:
        fqdn = vertex.node.name
        if not self.working.room(vertex) or len(self.holds) >= MOST_IN_FLIGHT:
            self._starved.add(fqdn)
            return
        self._ready_since.pop(fqdn, None)
        try:
            hold = claim.take(self.world, vertex, self.identity, self.working.name_run(vertex.node), time.time())
            changes = claim.claiming(self.world, hold)
        except (Conflict, NotFound) as incomplete:
            log.warning("cannot claim %s: %s", vertex.name, incomplete)
            return
        held = self.holds[fqdn] = Held(hold)
        self.working.occupy(held)
        self.send(changes, lambda refused: self._claimed(held, refused), f"claim of {held.name}")

    def _claimed(self, held: Held, refused: OcbError | None) -> None:
        if self.holds.get(held.fqdn) is not held:
            return
        if refused is not None:
            self._drop(held)
            self.agenda.at(time.monotonic() + AGAIN_SECONDS, ("consider", held.fqdn))
            return
        metrics.TRANSITIONS.labels(Event.CLAIM).inc()
        if held.hold.previous_epoch is not None:
            metrics.TAKEOVERS.inc()
            log.info("%s: taken over from epoch %d", held.name, held.hold.previous_epoch)
        self._run(held)

    def _run(self, held: Held) -> None:
        finished = self.working.start(held, lambda ended: self._ended(held, ended))
        if finished is not None:
            self._end(held, finished)

    # -- the end of a run --

    def _ended(self, held: Held, finished: Finished) -> None:
        if self.holds.get(held.fqdn) is held:
            self._end(held, finished)

    def _end(self, held: Held, finished: Finished) -> None:
        """Write what came of a run, and in the same transaction claim the next noderole of the node."""
        view = held.hold.vertex.node
        if self.holds.get(held.fqdn) is not held:
            return
        if self._superseded(held):
            self._drop(held)
            self._give_back(view)
            return
        if finished.again_after is not None:
            self.working.start(held, lambda ended: self._ended(held, ended), finished.again_after)
            return
        try:
            ending = self.working.ending(held, finished, time.time())
        except Conflict as refused:
            log.error("%s: %s", held.name, refused) 
            self._drop(held)
            return
        following, changes = self._follow(held, finished, ending)
        self.send(
            changes,
            lambda refused: self._written(held, finished, following, ending.event, refused),
            f"end of {held.name}",
        )

    def _superseded(self, held: Held) -> bool:
        """Whether the noderole or the node went on without us: then the result is nobody's any more."""
        vertex, hold = held.hold.vertex, held.hold
        record = vertex.record
        return (
            self.world.vertex(vertex.name) is not vertex
            or record.state is not State.TRANSITION
            or record.run != hold.run
            or vertex.node.fence != hold.epoch
        )

    def _follow(self, held: Held, finished: Finished, ending: Ending) -> tuple[Held | None, list[Change]]:
        """The next noderole to hold on the same node, if there is one, and the transaction that ends this one."""
        if self._draining_since is not None or not ending.may_pass_on:
            return None, ending.changes
        hold, view = held.hold, held.hold.vertex.node
        vertex = self._next(view, ending.moved)
        if vertex is None or not self.working.room(vertex, instead_of=held):
            return None, ending.changes
        record = ending.moved.get(vertex, vertex.record)
        run = self.working.name_run(view)
        try:
            following = claim.take_next(self.world, hold, vertex, record, run, time.time())
            changes = claim.passing_on(self.world, hold, ending.moved, ending.run, following, finished.results)
        except (Conflict, NotFound):
            return None, ending.changes
        return Held(following), changes

    def _written(
        self, held: Held, finished: Finished, following: Held | None, event: Event, refused: OcbError | None
    ) -> None:
        if self.holds.get(held.fqdn) is not held:
            return
        if isinstance(refused, Invalid):  # what came back does not fit in ZooKeeper
            self._end(held, Finished(Failed(str(refused)), finished.ended))
            return
        if refused is not None:
            self._again.append((held, finished))  # read first: the outcome may be there, or a neighbour moved on
            self.wake.set()
            return
        metrics.TRANSITIONS.labels(event).inc()
        if following is None:
            self._drop(held)
            self.consider(held.fqdn)
            return
        metrics.TRANSITIONS.labels(Event.CLAIM).inc()
        self.holds[held.fqdn] = following
        self.working.pass_on(held, following)
        self._run(following)

    def _drop(self, held: Held) -> None:
        """Forget a hold, and let others have its slot."""
        held.stop.set()
        if self.holds.get(held.fqdn) is held:
            del self.holds[held.fqdn]
        self.working.vacate(held)
        while self._starved and len(self.holds) < MOST_IN_FLIGHT and self.working.free:
            self.consider(self._starved.pop())

    # -- letting go --

    def _give_back(self, view: NodeView) -> None:
        """Delete a claim of ours that nothing stands behind: its transaction's answer was lost."""
        if view.claim is None or view.claim.annealer != self.identity or view.claim_owner != self.session.id:
            return
        self.send(claim.giving_back(view), lambda _: None, f"giving back {view.name}")

    def _let_go(self, vertex: Vertex) -> None:
        """Nobody runs it, and a parent is not well any more: it is to wait again."""
        if vertex.node.claim is None and self.ranking.of(vertex.node.name) == 0:
            moved = apply({vertex: Event.LOSE}, time.time(), by=self.identity)
            self.send(list(claim.settling(moved, first=vertex)), lambda _: None, f"letting go {vertex.name}")

    @property
    def drained(self) -> bool:
        return not self.holds

    def close(self) -> None:
        """End the threads; runs on machines go on."""
        self.lost()
        for threads in (self.working, self.probing, self.hooking):
            threads.close()

    def _drain(self) -> None:
        """Claim nothing more; what has not ended after ``drain_seconds`` is given back, and others attach to its run."""
        if self._draining_since is None:
            self._draining_since = time.monotonic()
            log.info("draining: %d nodes held", len(self.holds))
            self.daemon = replace(self.daemon, state="draining")
            path = paths.daemon("annealer", self.identity)
            self.session.commit_soon([Set(path, self.daemon, 0)], lambda _: None)
        if time.monotonic() - self._draining_since < self.settings.drain_seconds:
            return
        for held in list(self.holds.values()):
            if not held.releasing:
                held.releasing = True
                held.stop.set()
                self.send(claim.releasing(held.hold), partial(self._released, held), f"release of {held.name}")

    def _released(self, held: Held, _: OcbError | None) -> None:
        self._drop(held)

    # -- writing --

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        """Commit without waiting; ``then(refused)`` is called in a later turn, with the view brought up to date.

        A refusal, or an answer that was lost, makes the cache read again all that the changes name.
        """
        if changes:
            self.cache.expect(changes)
            self.session.commit_soon(changes, lambda answer: self.post(lambda: self._answered(changes, answer, then, what)))

    def _answered(
        self, changes: list[Change], answer: list[ZnodeStat | None] | OcbError, then: Callable[[OcbError | None], None], what: str
    ) -> None:
        if isinstance(answer, OcbError):
            self.cache.refused(changes)
            if isinstance(answer, Stale):
                metrics.STALE.inc()
            log.log(logging.DEBUG if isinstance(answer, Stale) else logging.WARNING, "%s: %s", what, answer)
            then(answer)
        else:
            self.cache.committed(changes, answer)
            then(None)
