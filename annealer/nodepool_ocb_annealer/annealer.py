"""One turn of the annealer: read what changed, decide, send transactions; all state here is a cache and can be lost.

Everything runs on the turn thread. Answers of ZooKeeper, jigs, probes and hooks come in through ``post`` as calls to make
at the start of the next turn. The work itself is in seven rooms: holding (claims and what follows), working (slots and
jigs), probing, judging (machines that do not answer), hooking, rolling (rollouts that it drives), tidying.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon import belonging
from nodepool_ocb.daemon.agenda import Agenda
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine import claim, liveness
from nodepool_ocb.engine.noderole import placed, settle
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import NoCluster, OcbError, Stale, Unavailable
from nodepool_ocb.jigs.jig import Jig
from nodepool_ocb.jigs.ssh.probe import Prober
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Create, Daemon, Delete, Set, State
from nodepool_ocb.store import clusters
from nodepool_ocb.store.cache import Cache
from nodepool_ocb.store.client.session import Session, ZnodeStat
from nodepool_ocb.store.touched import Touched
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.telemetry.logs import failed
from nodepool_ocb_annealer import memory
from nodepool_ocb_annealer.appointments import Appointment, Matter
from nodepool_ocb_annealer.claims import Claims
from nodepool_ocb_annealer.hooks import Hooking
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.machines.probes import Probing
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.rollouts.drivers import Rolling
from nodepool_ocb_annealer.runs.slots import Working
from nodepool_ocb_annealer.runs.tidying import Tidying

log = logging.getLogger(__name__)

SETTLING_SECONDS: Final = 0.1  # who wrote a change settles it too; only what stays unsettled is ours to mend
AGAIN_SECONDS: Final = 0.5
QUIET: Final = 5  # refusals in a row of what is settled: others were faster


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
        self.cluster = ""  # its id; known once there is a session, and the same in every later one
        self.jigs, self.prober = jigs, prober
        self.session = session
        self.cache = Cache(session, self.world, self.wake.set)
        self.ranking = Ranking(identity)
        self.agenda = Agenda[Appointment]()
        self.working = Working(session, self.world, settings, jigs, self.post)
        self.claims = Claims(self)
        self.judging = Judging(self)
        self.probing = Probing(self)
        self.hooking = Hooking(self)
        self.rolling = Rolling(self)
        self.tidying = Tidying(self)
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._registered = 0  # the version of our registration
        self._registered_in = 0  # the session of our registration
        self._failing: str | None = None  # why turn after turn fails
        self._unsaid = False  # it may not be what we said last
        self._session = 0  # the session in which the cache was loaded
        self._refusals = Refusals(1, SETTLING_SECONDS, QUIET)  # of what is settled or goes on
        self._refused: dict[str, str] = {}  # what → why it was refused, where that is no race
        self._draining_since: float | None = None
        self._to_settle: list[Vertex] = []  # that came due in this turn
        self.meetings: Mapping[Matter, Callable[[str], None]] = {
            Matter.CONSIDER: self.claims.consider,
            Matter.WRITE_END: self.claims.retry,
            Matter.SETTLE: self._settle,
            Matter.GO_ON_DYING: self._go_on_with,
            Matter.SWEEP: lambda _: self._sweep(),
            Matter.PROBE: self.probing.probe,
            Matter.TRIAL: lambda _: self.probing.trial(),
            Matter.TIDY: lambda _: self.tidying.due(),
            Matter.ROLLOUT: self.rolling.due,
            Matter.NODEROLE_HOOK: partial(self.hooking.due, Matter.NODEROLE_HOOK),
            Matter.NODE_HOOK: partial(self.hooking.due, Matter.NODE_HOOK),
            Matter.DEPLOYMENT_HOOK: partial(self.hooking.due, Matter.DEPLOYMENT_HOOK),
        }

    # -- from other threads --

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made on the turn thread."""
        self._inbox.put(call)
        self.wake.set()

    def lost(self) -> None:
        """The session is over: every claim is void now, before the next turn. Called on the connection thread."""
        self.claims.stop()
        self.wake.set()

    # -- the turn --

    def turn(self) -> float:
        """Read, decide, send; gives the seconds until the next turn is due by itself."""
        if self.session.dead:
            log.critical("the connection to ZooKeeper is dead for good: ending, to be started again")
            sys.exit(1)
        self._take_posted()
        if self.stop.is_set():
            self._drain()
        if not self.session.trusted:
            return AGAIN_SECONDS
        try:
            touched = self._load() if self.session.id != self._session else self.cache.refresh()
            self._stay_in_our_cluster()
            self._look(touched)
            self._meet(time.monotonic())
            self._tell_trouble()
        except Unavailable as gone:
            log.warning("ZooKeeper: %s", gone)
            return AGAIN_SECONDS
        except NoCluster:
            self.session.close()  # what is under way is of another cluster: nothing of it is written here
            raise
        return self.agenda.seconds(time.monotonic(), at_most=self.settings.sweep_seconds)

    def _take_posted(self) -> None:
        while True:
            try:
                call = self._inbox.get_nowait()
            except Empty:
                return
            try:
                call()
            except Exception as error:  # one answer that cannot be taken must not cost the others
                metrics.TURN_FAILURES.inc()
                failed(log, error, "an answer could not be taken")

    def _load(self) -> Touched:
        """A new session: what was held is void, and everything is read anew."""
        self.claims.void()
        self.rolling.void()
        session = self.session.id
        self.cluster = clusters.current(self.session, self.cluster).id
        belonging.of_logs(self.settings.log_dir, self.cluster)
        self._register()
        touched = self.cache.load()
        self.probing.look_at_host()
        self.rolling.look_at_all()
        memory.tidy()
        self._session = session
        self._appoint_sweep()
        return touched

    def _stay_in_our_cluster(self) -> None:
        """Raises NoCluster where the tree was made anew below a session that lives on."""
        if self.world.cluster is None or self.world.cluster.record.id != self.cluster:
            clusters.current(self.session, self.cluster)

    def _register(self) -> None:
        """Nobody else has our name: what stands there is ours, of a session that we were told is over."""
        path = paths.daemon("annealer", self.identity)
        self._registered = 0
        self.session.ensure(paths.daemons("annealer"))
        former = self.session.get(path)
        gone = [Delete(path, former.version)] if former is not None else []
        try:
            self.session.commit([*gone, Create(path, self.daemon, ephemeral=True)])
        except Stale:
            raise Unavailable(f"{path} was changed while we wrote it") from None
        self._registered_in = self.session.id

    def register(self, **fields: Any) -> None:
        """Say something else of this annealer from now on."""
        self.daemon = replace(self.daemon, **fields)
        change = Set(paths.daemon("annealer", self.identity), self.daemon, self._registered)
        self._registered += 1
        self.session.commit_soon([change], lambda answer: self.post(partial(self._said, answer)))

    def _said(self, answer: list[ZnodeStat | None] | OcbError) -> None:
        self._unsaid = self._unsaid or isinstance(answer, OcbError)

    # -- what is wrong with us --

    @property
    def trouble(self) -> str | None:
        """Why we are of no use now, in one sentence."""
        return self._failing or self.judging.standing.trouble or self.claims.trouble

    def not_ready(self) -> str | None:
        """The same as it was said last, or that ZooKeeper does not answer; from any thread."""
        return self.daemon.trouble if self.session.trusted else "ZooKeeper does not answer"

    def failing(self, why: str | None) -> None:
        """Why turn after turn fails; None: one ended well again, and the next one says so. Raises Unavailable."""
        self._failing = why
        if why is None:
            self.wake.set()
        elif self.session.trusted and self.session.id == self._registered_in:
            self._tell_trouble()

    def _tell_trouble(self) -> None:
        """Say it once, to people and to the other annealers, who go first then; and when it is over, begin anew."""
        if self._unsaid:
            self._register()
            self._unsaid = False
        before, trouble = self.daemon.trouble, self.trouble
        if trouble == before:
            return
        self.register(trouble=trouble)
        if trouble is not None:
            log.warning("not ready: %s", trouble)
            self.agenda.at(time.monotonic() + self.settings.dead_probe_seconds, Appointment(Matter.TRIAL))
        else:
            log.info("ready: that is over: %s", before)
            self.probing.plan(self.world.nodes)
            for fqdn in self.world.nodes:
                self.claims.consider(fqdn)

    def configure(self, settings: AnnealerSettings) -> None:
        """Take over other settings; what is under way goes on as it began."""
        self.settings = settings
        self.working.resize(settings)
        if settings.slots != self.daemon.slots:
            self.register(slots=settings.slots)
        self.probing.plan(self.world.nodes)
        # what was put off for longer than it is now is found here
        self.agenda.at(time.monotonic(), Appointment(Matter.SWEEP))

    def doing(self) -> str:
        """What it does now, in one sentence."""
        held = f"{len(self.claims)} {'node' if len(self.claims) == 1 else 'nodes'}"
        if self.draining:
            return f"draining: {held} held"
        return f"working on {held}" if len(self.claims) else "nothing to do"

    def spoiled(self, path: str, reason: str) -> None:
        """Attributes that were read, and cannot be decoded: what would see them waits until they can be."""
        if path not in self.world.spoiled:
            log.warning("%s; what would see them waits until they are mended", reason)
        self.cache.spoiled(path, reason)

    def _look(self, touched: Touched) -> None:
        affected = set(touched.nodes)
        for vertex in touched.vertices | touched.turned:
            self._mind_settling(vertex)
        for fqdn in touched.nodes:
            self._mind_dying(fqdn)
        catalogue = touched.roles or touched.deployments or touched.attributes
        fit = [identity for identity, daemon in self.world.annealers.items() if daemon.trouble is None]
        if self.ranking.among(fit) or catalogue:
            affected.update(self.world.nodes)
            self.hooking.look_at_all()
            self.probing.plan(self.world.nodes)
        self.hooking.look(touched)
        self.rolling.look(touched)
        self.probing.plan(touched.nodes)
        for fqdn in affected:
            self.claims.consider(fqdn)

    def _meet(self, now: float) -> None:
        try:
            for appointment in self.agenda.due(now):
                self.meetings[appointment.matter](appointment.about)
        finally:
            self._settle_unsettled()

    def _sweep(self) -> None:
        """Read everything and look at everything: what a lost wake-up left lying is found here."""
        self._appoint_sweep()  # first, for reading may fail
        metrics.SWEEPS.inc()
        touched = self.cache.sweep()
        self._stay_in_our_cluster()
        self._look(touched)
        spoiled = paths.daemon("annealer", self.identity) in self.world.unreadable
        if spoiled or self.identity not in self.world.annealers:
            self._unsaid = True  # a hand has spoiled or deleted it: to others nobody stands behind our claims
        states = Counter(vertex.record.state for vertex in self.world.vertices())
        for state in State:
            metrics.NODEROLES.labels(state).set(states[state])
        metrics.QUARANTINED.set(len(self.cache.quarantined))
        for vertex in self.world.vertices():
            if vertex.record.state is not State.ACTIVE or vertex.waiting:
                self._mind_settling(vertex)
        self.hooking.look_for_code()
        self.hooking.look_at_all()
        self.rolling.look_at_all()
        for fqdn in self.world.nodes:
            self.claims.consider(fqdn)
            self._mind_dying(fqdn)

    def _appoint_sweep(self) -> None:
        wait = self.settings.sweep_seconds * random.uniform(0.9, 1.1)
        self.agenda.at(time.monotonic() + wait, Appointment(Matter.SWEEP))

    # -- settling what nobody settled --

    def _mind_settling(self, vertex: Vertex) -> None:
        if self._unsettled(vertex):
            wait = SETTLING_SECONDS + self.ranking.of(vertex.node.name) * self.settings.steal_delay_seconds
            self.agenda.at(time.monotonic() + wait, Appointment(Matter.SETTLE, vertex.name))

    @staticmethod
    def _unsettled(vertex: Vertex) -> bool:
        return placed(vertex, vertex.record, 0, 0.0) is not vertex.record

    def _settle(self, noderole: str) -> None:
        vertex = self.world.vertex(noderole)
        if vertex is not None and self._unsettled(vertex):
            self._to_settle.append(vertex)
        else:
            self._refusals.well(str(Appointment(Matter.SETTLE, noderole)))

    def _settle_unsettled(self) -> None:
        """Write what the rule about neighbours says, where whoever moved them did not come to it."""
        unsettled, self._to_settle = self._to_settle, []
        moved = settle({}, self.session.now(), also=unsettled)
        for changes in limits.parts(list(claim.writes(vertex, record)) for vertex, record in moved.items()):
            self.send(changes, partial(self._settled, list(claim.written(moved, changes))), "settling")

    def _settled(self, part: list[Vertex], refused: OcbError | None) -> None:
        for vertex in part:  # one that moved on must not strand the others
            self._again(Appointment(Matter.SETTLE, vertex.name), refused)

    def _again(self, appointment: Appointment, refused: OcbError | None) -> None:
        """Later and later while it is refused; said once where that goes on, for what refuses it may be lost."""
        name, now = str(appointment), time.monotonic()
        if refused is None:
            self._refusals.well(name)
            return
        wait = self._refusals.refused(name, now)
        if self._refusals.news(name, str(refused)):
            log.warning("%s was refused again and again, and is tried again: %s", name, refused)
        self.agenda.at(now + wait, appointment)

    # -- deaths that are larger than a transaction --

    def _mind_dying(self, fqdn: str) -> None:
        view = self.world.nodes.get(fqdn)
        if view is not None and view.record is not None and view.record.dying:
            wait = SETTLING_SECONDS + self.ranking.of(fqdn) * self.settings.steal_delay_seconds
            self.agenda.at(time.monotonic() + wait, Appointment(Matter.GO_ON_DYING, fqdn))

    def _go_on_with(self, fqdn: str) -> None:
        """Tell more of a dead node's noderoles; what is written makes the next appointment."""
        view = self.world.nodes.get(fqdn)
        if view is not None and view.record is not None:
            changes = liveness.went_on(view, self.session.now(), self.identity)
            if not changes:
                self._refusals.well(str(Appointment(Matter.GO_ON_DYING, fqdn)))  # others have told them all
            self.send(changes, partial(self._went_on, fqdn), f"death of {fqdn}")

    def _went_on(self, fqdn: str, refused: OcbError | None) -> None:
        self._again(Appointment(Matter.GO_ON_DYING, fqdn), refused)
        if refused is None:
            self._mind_dying(fqdn)

    # -- the end --

    @property
    def draining(self) -> bool:
        """Whether nothing more is to be claimed."""
        return self._draining_since is not None

    @property
    def drained(self) -> bool:
        """Whether no node is held any more."""
        return not len(self.claims)

    def close(self) -> None:
        """End the threads; runs on machines go on."""
        self.lost()
        for threads in (self.working, self.probing, self.hooking, self.tidying):
            threads.close()

    def _drain(self) -> None:
        """Claim nothing more; what has not ended after ``drain_seconds`` is given back, and others attach to its run."""
        if self._draining_since is None:
            self._draining_since = time.monotonic()
            log.info("draining: %d nodes held", len(self.claims))
            self.register(state="draining")
            self.rolling.release()
        if time.monotonic() - self._draining_since >= self.settings.drain_seconds:
            self.claims.release()

    # -- writing --

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        """Commit without waiting; ``then(refused)`` is called in a later turn, with the view brought up to date.

        A refusal, or an answer that was lost, makes the cache read again all that the changes name.
        """
        if changes:
            self.cache.expect(changes)
            self.session.commit_soon(
                changes, lambda answer: self.post(lambda: self._answered(changes, answer, then, what))
            )

    def _answered(
        self,
        changes: list[Change],
        answer: list[ZnodeStat | None] | OcbError,
        then: Callable[[OcbError | None], None],
        what: str,
    ) -> None:
        if isinstance(answer, OcbError):
            self.cache.refused(changes)
            if isinstance(answer, Stale):
                metrics.STALE.inc()
                self._restore(answer)
            news = not isinstance(answer, Stale) and self._refused.get(what) != str(answer)
            if news:
                self._refused[what] = str(answer)
            log.log(logging.WARNING if news else logging.DEBUG, "%s: %s", what, answer)
            then(answer)
        else:
            self._refused.pop(what, None)
            self.cache.committed(changes, answer)
            then(None)

    def _restore(self, refused: Stale) -> None:
        """What holds the records of a noderole's runs was deleted by hand: it is empty, and made again."""
        folder = refused.path.rpartition("/")[0]
        if refused.absent and folder.endswith("/runs") and refused.path.startswith(paths.NODES + "/"):
            self.session.commit_soon([Create(folder)], lambda _: None)
