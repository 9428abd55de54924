"""The annealer's mind: what it knows, and who decides what follows from it. All state here is a cache and can be lost.

The work itself is in rooms: claims (and what follows from them), working (slots and jigs), probing, judging (machines that
do not answer), settling, hooking, driving (rollouts and runs of tasks), checking (drift), tidying, posting (the webhook).
How a turn goes is in ``daemon.turns``.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon import belonging
from nodepool_ocb.daemon.agenda import Agenda
from nodepool_ocb.daemon.pausing import Pausing
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.turns import Turns
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.extensions import in_a_line
from nodepool_ocb.jigs.jig import Jig
from nodepool_ocb.jigs.ssh.probe import Prober
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.model.records import Change, Daemon, State
from nodepool_ocb.model.rights import Kind
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer import memory
from nodepool_ocb_annealer.appointments import Appointment, Matter
from nodepool_ocb_annealer.checking import Checking
from nodepool_ocb_annealer.claims import Claims
from nodepool_ocb_annealer.driving.drivers import Drivers
from nodepool_ocb_annealer.hooks.hooking import Hooking
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.machines.probes import Probing
from nodepool_ocb_annealer.rollouts.rolling import Rolling
from nodepool_ocb_annealer.runs.slots import Working
from nodepool_ocb_annealer.runs.tidying import Tidying
from nodepool_ocb_annealer.settling import Settling
from nodepool_ocb_annealer.tasks.taskruns import TaskRuns
from nodepool_ocb_annealer.webhook.posting import Posting
from nodepool_ocb_annealer.writing import Writing

log = logging.getLogger(__name__)


class Annealer:
    """All on the turn thread, but for what comes from other threads."""

    def __init__(
        self,
        session: Session,
        settings: AnnealerSettings,
        jigs: dict[str, Jig],
        prober: Prober | None,
        identity: str,
        daemon: Daemon,
        secrets: Secrets | None = None,
    ) -> None:
        self.secrets = secrets or Secrets()
        self.session, self.settings, self.identity = session, settings, identity
        self.world = World()
        self._no_keys = self.secrets.trouble  # as it was at the newest sweep
        self.cluster = ""  # its id; known once there is a session, and the same in every later one
        self.jigs, self.prober = jigs, prober
        self.registration = Registration(session, Kind.ANNEALER, identity, daemon)
        self.turns = Turns(session, self.registration, self)
        self.pausing = Pausing(session, Kind.ANNEALER, self.registration, self.turns.wake.set)
        self.cache = Cache(session, self.world, self.turns.wake.set)
        self.ranking = Ranking(identity)
        self.agenda = Agenda[Appointment]()
        self._writing = Writing(session, self.cache, self.turns)
        self.working = Working(session, self.world, settings, jigs, self.post, self.secrets)
        self.claims = Claims(self)
        self.judging = Judging(self)
        self.probing = Probing(self)
        self.settling = Settling(self)
        self.hooking = Hooking(self)
        self.rolling = Drivers(self, Rolling(session))
        self.tasks = Drivers(self, TaskRuns(session))
        self.tidying = Tidying(self)
        self.checking = Checking(self)
        self.posting = Posting(self)
        self.meetings: Mapping[Matter, Callable[[str], None]] = {
            Matter.CONSIDER: self.claims.consider,
            Matter.WRITE_END: self.claims.held.due,
            Matter.SETTLE: self.settling.settle,
            Matter.GO_ON_DYING: self.settling.go_on_dying,
            Matter.PROBE: self.probing.probe,
            Matter.TRIAL: lambda _: self.probing.trial(),
            Matter.TIDY: lambda _: self.tidying.due(),
            Matter.WEBHOOK: lambda _: self.posting.due(),
            Matter.CHECKS: lambda _: self.checking.look_at_all(),
            Matter.CHECK_SOME: lambda _: self.checking.due(),
            Matter.ROLLOUT: self.rolling.due,
            Matter.TASK_RUN: self.tasks.due,
            Matter.NODEROLE_HOOK: partial(self.hooking.due, Matter.NODEROLE_HOOK),
            Matter.NODE_HOOK: partial(self.hooking.due, Matter.NODE_HOOK),
            Matter.DEPLOYMENT_HOOK: partial(self.hooking.due, Matter.DEPLOYMENT_HOOK),
        }

    # -- from other threads --

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made on the turn thread."""
        self.turns.post(call)

    def lost(self) -> None:
        """The session is over: every claim is void now, before the next turn. Called on the connection thread."""
        self.claims.held.stop()
        self.turns.wake.set()

    def log_folder(self) -> Path | None:
        """Where the outputs of runs are kept, if anywhere."""
        folder = self.settings.log_dir
        return Path(folder) if folder else None

    def idle_about(self, name: str) -> bool:
        """Whether nothing is added to the log of a run any more."""
        return not any(name.endswith(f"-{run}") for run in self.claims.held.runs())

    # -- what is read --

    @property
    def sweep_seconds(self) -> float:
        """From one sweep to the next."""
        return self.settings.sweep_seconds

    def load(self) -> None:
        """A new session: what was held is void, and everything is read anew."""
        self.claims.void()
        self.rolling.void()
        self.tasks.void()
        self.cluster = clusters.current(self.session, self.cluster).id
        belonging.of_logs(self.settings.log_dir, self.cluster)
        self.registration.write()
        self.pausing.load()
        self.pausing.look()  # before anything is claimed
        touched = self.cache.load()
        self.probing.look_at_host()
        self.rolling.look_at_all()
        self.tasks.look_at_all()
        memory.tidy()
        self.posting.look()
        self._look(touched)

    def refresh(self) -> None:
        """Look at what changed."""
        self._heed_pause()
        self._look(self.cache.refresh())
        self.posting.look()

    def sweep(self) -> None:
        """Read everything and look at everything: what a lost wake-up left lying is found here."""
        self._look(self.cache.sweep())
        spoiled = paths.daemon(Kind.ANNEALER, self.identity) in self.world.unreadable
        self.registration.compare(None if spoiled else self.world.annealers.get(self.identity))
        self._count()
        self._no_keys = self.secrets.trouble
        self.settling.look_at_all()
        self.hooking.look_for_code()
        self.hooking.look_at_all()
        self.rolling.look_at_all()
        self.tasks.look_at_all()
        self.checking.look_at_all()
        self.posting.sweep()
        for fqdn in self.world.nodes:
            self.claims.consider(fqdn)

    def _look(self, touched: ChangeSet) -> None:
        self._stay_in_our_cluster()
        self.settling.look(touched.vertices | touched.turned, touched.nodes)
        affected = set(touched.nodes)
        catalogue = touched.roles or touched.deployments or touched.attributes
        fit = {identity: daemon for identity, daemon in self.world.annealers.items() if daemon.trouble is None}
        working = [identity for identity, daemon in fit.items() if daemon.paused is None]
        if self.ranking.among(working or fit) or catalogue:
            affected.update(self.world.nodes)
            self.hooking.look_at_all()
            self.probing.plan(self.world.nodes)
        self.hooking.look(touched)
        self.rolling.look(touched)
        self.tasks.look(touched)
        self.probing.plan(touched.nodes)
        if touched.deployments:
            self.checking.look_at_all()
        self.checking.look(touched.nodes)
        for fqdn in affected:
            self.claims.consider(fqdn)

    def _stay_in_our_cluster(self) -> None:
        """Raises NoCluster where the tree was made anew below a session that lives on."""
        if self.world.cluster is None or self.world.cluster.record.id != self.cluster:
            clusters.current(self.session, self.cluster)

    def _count(self) -> None:
        states = Counter(vertex.record.state for vertex in self.world.vertices())
        for state in State:
            metrics.NODEROLES.labels(state).set(states[state])
        drifts = Counter(each.record.checked.drift for each in self.world.vertices() if each.record.checked)
        for drift in Drift:
            metrics.DRIFT.labels(drift).set(drifts[drift])
        metrics.QUARANTINED.set(len(self.cache.quarantined))

    def spoiled(self, path: str, reason: str) -> None:
        """Attributes that were read, and cannot be decoded: what would see them waits until they can be."""
        if path not in self.world.spoiled:
            log.warning("%s; what would see them waits until they are mended", reason)
        self.cache.spoiled(path, reason)

    def has_code(self, vertex: Vertex) -> bool:
        """Whether the code that a run of the noderole calls here is installed."""
        return self.hooking.has_code(vertex)

    # -- what is done --

    def decide(self) -> float:
        """Keep the appointments that are due; gives the seconds until the next."""
        self._heed_pause()
        try:
            for appointment in self.agenda.due(time.monotonic()):
                self.meetings[appointment.matter](appointment.about)
        finally:
            self.settling.write()
        wait = self.agenda.seconds(time.monotonic(), at_most=self.settings.sweep_seconds)
        return min(wait, self.pausing.seconds)

    def _heed_pause(self) -> None:
        """Hand over what is driven, where this host was paused; begin anew, where that is over."""
        if not self.pausing.look():
            return
        paused = self.pausing.paused
        log.info("paused %s", paused) if paused else log.info("resumed")
        if paused:
            self.rolling.release()
            self.tasks.release()
            self.posting.release()
            return
        self.rolling.look_at_all()
        self.tasks.look_at_all()
        self.posting.wake()
        for fqdn in self.world.nodes:
            self.claims.consider(fqdn)

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        """Commit without waiting; ``then(refused)`` is called in a later turn, with the cache brought up to date."""
        self._writing.send(changes, then, what)

    def doing(self) -> str:
        """What it does now, in one sentence."""
        held = f"{len(self.claims)} {'node' if len(self.claims) == 1 else 'nodes'}"
        if self.turns.draining:
            return f"draining: {held} held"
        if self.pausing.paused:
            return f"paused {self.pausing.paused}; {held} held"
        return f"working on {held}" if len(self.claims) else "nothing to do"

    def served_at(self, address: str | None) -> None:
        """HOST:PORT of our pages, or that there are none; before the first turn, or between two."""
        self.registration.change(pages=address)

    def configure(self, settings: AnnealerSettings) -> None:
        """Take over other settings; what is under way goes on as it began."""
        self.settings = settings
        self.working.resize(settings)
        self.posting.configure()
        self.registration.change(slots=settings.slots, log_dir=settings.log_dir)
        self.probing.plan(self.world.nodes)
        self.turns.sweep_soon()  # what was put off for longer than it is now is found there

    # -- what is wrong with this annealer --

    @property
    def trouble(self) -> str | None:
        """Why it is of no use now, in one sentence."""
        return self.judging.standing.trouble or self.claims.trouble or self._no_keys

    def trouble_changed(self, trouble: str | None) -> None:
        """Look for its end; and when it has come, begin anew."""
        if trouble is not None:
            self.agenda.at(time.monotonic() + self.settings.dead_probe_seconds, Appointment(Matter.TRIAL))
            return
        self.probing.plan(self.world.nodes)
        for fqdn in self.world.nodes:
            self.claims.consider(fqdn)

    # -- the end --

    @property
    def resting(self) -> bool:
        """Whether nothing more is to be claimed or driven."""
        return self.turns.draining or self.pausing.paused is not None

    @property
    def drained(self) -> bool:
        """Whether no node is held any more."""
        return not len(self.claims)

    def drain(self, seconds: float) -> None:
        """Hand over what is driven; nodes held after ``drain_seconds`` are given back, and others attach to their runs."""
        self.rolling.release()
        self.tasks.release()
        self.posting.release()
        if seconds >= self.settings.drain_seconds:
            self.claims.held.release()

    def close(self) -> None:
        """End the threads; runs on machines go on."""
        self.lost()
        for threads in (self.working, self.probing, self.hooking, self.tidying, self._writing):
            threads.close()
        for name, jig in self.jigs.items():
            try:
                jig.close()
            except Exception as error:  # of a package of others; the rest is closed all the same
                log.warning("jig %s cannot be closed: %s", name, in_a_line(error))
