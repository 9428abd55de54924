"""The controller of an annealer: it reads ZooKeeper, and gives each change to the parts that decide about it.

Its parts share one ``AnnealerContext``. These are claims (with their executor), slots, probing, settling, hooking and
tidying; judging (machines that do not answer), driving (rollouts and runs of tasks), checking (drift), and posting (the
webhook). All state here is a cache and can be lost. ``daemon.turns`` has the order of a turn.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from nodepool_ocb.config import AnnealerSettings, SshSettings
from nodepool_ocb.daemon import belonging
from nodepool_ocb.extensions import in_a_line
from nodepool_ocb.jigs.jig import Jig
from nodepool_ocb.jigs.ssh.probe import Prober
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.model.records import Daemon, Deployment, DeploymentRole, Role, State
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.provisioning.servers import listening
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer import memory
from nodepool_ocb_annealer.checking import CheckScheduler
from nodepool_ocb_annealer.claims import Claims
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.driving.drivers import Drivers
from nodepool_ocb_annealer.hooks.hooking import Hooking
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.machines.powering import Powering
from nodepool_ocb_annealer.machines.probes import Probing
from nodepool_ocb_annealer.publishing import PublishingSweep
from nodepool_ocb_annealer.rollouts.rolling import Rolling
from nodepool_ocb_annealer.runs.executor import RunParts
from nodepool_ocb_annealer.runs.slots import SlotPool
from nodepool_ocb_annealer.runs.tidying import Tidying
from nodepool_ocb_annealer.settling import Reconciler
from nodepool_ocb_annealer.tasks.taskruns import TaskRuns
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from nodepool_ocb_annealer.webhook.posting import Posting

log = logging.getLogger(__name__)


class Annealer:
    """All on the turn thread, except calls from other threads."""

    def __init__(
        self,
        session: Session,
        settings: AnnealerSettings,
        jigs: dict[str, Jig],
        prober: Prober | None,
        identity: str,
        daemon: Daemon,
        secrets: Secrets | None = None,
        ssh: SshSettings | None = None,
    ) -> None:
        self.context = context = AnnealerContext(
            session, settings, jigs, prober, identity, daemon, secrets or Secrets(), controller=self
        )
        self.turns, self.registration = context.turns, context.registration
        self._no_keys = context.secrets.trouble  # as it was at the newest sweep
        self.slots = SlotPool(context)
        self.tidying = Tidying(context, lambda: self.claims.executor.runs())
        self.judging = Judging(context)
        self.hooking = Hooking(context)
        self.claims = Claims(context, RunParts(self.slots, self.tidying, self.judging), self.hooking.has_code)
        self.probing = Probing(context, self.judging)
        self.powering = Powering(context, ssh or SshSettings())
        self.settling = Reconciler(context)
        self.rolling = Drivers(context, Rolling(session))
        self.tasks = Drivers(context, TaskRuns(session))
        self.checking = CheckScheduler(context)
        self.publishing = PublishingSweep(context)
        self.posting = Posting(context)
        self.timer_handlers: Mapping[TimerKind, Callable[[str], None]] = {
            TimerKind.CONSIDER: self.claims.consider,
            TimerKind.WRITE_END: self.claims.executor.due,
            TimerKind.INSTALL: self.claims.executor.install,
            TimerKind.SETTLE: self.settling.settle,
            TimerKind.GO_ON_DYING: self.settling.go_on_dying,
            TimerKind.PROBE: self.probing.probe,
            TimerKind.POWER: self.powering.due,
            TimerKind.TRIAL: lambda _: self.probing.trial(),
            TimerKind.TIDY: lambda _: self.tidying.due(),
            TimerKind.WEBHOOK: lambda _: self.posting.due(),
            TimerKind.CHECKS: lambda _: self.checking.look_at_all(),
            TimerKind.PUBLISH: lambda _: self.publishing.due(),
            TimerKind.CHECK_SOME: lambda _: self.checking.due(),
            TimerKind.ROLLOUT: self.rolling.due,
            TimerKind.TASK_RUN: self.tasks.due,
            TimerKind.NODEROLE_HOOK: partial(self.hooking.due, TimerKind.NODEROLE_HOOK),
            TimerKind.NODE_HOOK: partial(self.hooking.due, TimerKind.NODE_HOOK),
            TimerKind.DEPLOYMENT_HOOK: partial(self.hooking.due, TimerKind.DEPLOYMENT_HOOK),
        }

    # -- from other threads --

    def lost(self) -> None:
        """The session is over: every claim is void now, before the next turn. Called on the connection thread."""
        self.claims.executor.stop()
        self.context.turns.wake.set()

    def idle_about(self, name: str) -> bool:
        """Whether nothing is added to the log of a run any more."""
        return not any(name.endswith(f"-{run}") for run in self.claims.executor.runs())

    # -- reads --

    @property
    def sweep_seconds(self) -> float:
        """The time from one sweep to the next."""
        return self.context.settings.sweep_seconds

    def load(self) -> None:
        """A new session: former claims are void, and everything is read again."""
        self.claims.void()
        self.rolling.void()
        self.tasks.void()
        self.powering.void()
        self.context.cluster = clusters.current(self.context.session, self.context.cluster).id
        belonging.of_logs(self.context.settings.log_dir, self.context.cluster)
        self.context.registration.write()
        self.context.pausing.load()
        self.context.pausing.look()  # before anything is claimed
        touched = self.context.cache.load()
        self.probing.look_at_host()
        self.rolling.look_at_all()
        self.tasks.look_at_all()
        self.powering.look_at_all()
        memory.tidy()
        self.posting.look()
        self._look(touched)

    def refresh(self) -> None:
        """Look at the changes."""
        self._heed_pause()
        self._look(self.context.cache.refresh())
        self.posting.look()

    def sweep(self) -> None:
        """Read everything and look at everything: this finds work after a lost wake-up."""
        self._look(self.context.cache.sweep())
        spoiled = paths.daemon(ClientKind.ANNEALER, self.context.identity) in self.context.world.unreadable
        self.context.registration.compare(None if spoiled else self.context.world.annealers.get(self.context.identity))
        self._count()
        self._no_keys = self.context.secrets.trouble
        self.settling.look_at_all()
        self.hooking.look_for_code()
        self.hooking.look_at_all()
        for drivers in (self.rolling, self.tasks):
            drivers.sweep()
            drivers.look_at_all()
        self.checking.look_at_all()
        self.powering.look_at_all()
        self.publishing.look_at_all()
        self.posting.sweep()
        for fqdn in self.context.world.nodes:
            self.claims.consider(fqdn)

    def _look(self, touched: ChangeSet) -> None:
        self._stay_in_our_cluster()
        self.settling.look(touched.vertices | touched.turned, touched.nodes)
        affected = set(touched.nodes)
        catalogue = touched.has(Deployment, DeploymentRole, Role) or touched.attributes
        fit = {identity: daemon for identity, daemon in self.context.world.annealers.items() if daemon.trouble is None}
        working = [identity for identity, daemon in fit.items() if daemon.paused is None]
        if self.context.ranking.among(working or fit) or catalogue:
            affected.update(self.context.world.nodes)
            self.hooking.look_at_all()
            self.probing.plan(self.context.world.nodes)
        self.hooking.look(touched)
        self.rolling.look(touched)
        self.tasks.look(touched)
        self.powering.look(touched)
        self.probing.plan(touched.nodes)
        if touched.has(Deployment, DeploymentRole):
            self.checking.look_at_all()
        self.checking.look(touched.nodes)
        self.publishing.look(touched)
        for fqdn in affected:
            self.claims.consider(fqdn)

    def _stay_in_our_cluster(self) -> None:
        """Raises NoCluster where the tree was made anew below a session that lives on."""
        if self.context.world.cluster is None or self.context.world.cluster.record.id != self.context.cluster:
            clusters.current(self.context.session, self.context.cluster)

    def _count(self) -> None:
        states = Counter(vertex.record.state for vertex in self.context.world.vertices())
        for state in State:
            metrics.NODEROLES.labels(state).set(states[state])
        drifts = Counter(each.record.checked.drift for each in self.context.world.vertices() if each.record.checked)
        for drift in Drift:
            metrics.DRIFT.labels(drift).set(drifts[drift])
        metrics.STRANGE_DHCP_SERVERS.set(len({each.server for each in listening.strangers(self.context.world)}))
        metrics.QUARANTINED.set(len(self.context.cache.quarantined))

    # -- work --

    def decide(self) -> float:
        """Keep the timers that are due; gives the seconds until the next."""
        self._heed_pause()
        try:
            for timer in self.context.timers.due(time.monotonic()):
                self.timer_handlers[timer.kind](timer.about)
        finally:
            self.settling.write()
        wait = self.context.timers.seconds(time.monotonic(), at_most=self.context.settings.sweep_seconds)
        return min(wait, self.context.pausing.seconds, self.context.cache.rest_seconds or wait)

    def _heed_pause(self) -> None:
        """If this host was paused, hand over the driven executions; after the pause, begin again."""
        if not self.context.pausing.look():
            return
        paused = self.context.pausing.paused
        log.info("paused %s", paused) if paused else log.info("resumed")
        if paused:
            self.rolling.release()
            self.tasks.release()
            self.posting.release()
            return
        self.rolling.look_at_all()
        self.tasks.look_at_all()
        self.powering.look_at_all()
        self.posting.wake()
        for fqdn in self.context.world.nodes:
            self.claims.consider(fqdn)

    def doing(self) -> str:
        """The present work, in one sentence."""
        held = f"{len(self.claims)} {'node' if len(self.claims) == 1 else 'nodes'}"
        if self.context.turns.draining:
            return f"draining: {held} held"
        if self.context.pausing.paused:
            return f"paused {self.context.pausing.paused}; {held} held"
        return f"working on {held}" if len(self.claims) else "nothing to do"

    def served_at(self, address: str | None) -> None:
        """HOST:PORT of our pages, or that there are none; before the first turn, or between two."""
        self.context.registration.change(pages=address)

    def configure(self, settings: AnnealerSettings) -> None:
        """Take over other settings; work under way keeps its settings."""
        self.context.settings = settings
        self.slots.configure()
        self.posting.configure()
        self.context.registration.change(slots=settings.slots, log_dir=settings.log_dir)
        self.probing.plan(self.context.world.nodes)
        self.context.turns.sweep_soon()  # it finds the work that was put off for longer than the new settings say

    # -- faults of this annealer --

    @property
    def trouble(self) -> str | None:
        """Why it is of no use now, in one sentence."""
        return self.judging.standing.trouble or self.claims.trouble or self._no_keys

    def trouble_changed(self, trouble: str | None) -> None:
        """Look for its end; and when it has come, begin anew."""
        if trouble is not None:
            self.context.timers.at(time.monotonic() + self.context.settings.dead_probe_seconds, Timer(TimerKind.TRIAL))
            return
        self.probing.plan(self.context.world.nodes)
        for fqdn in self.context.world.nodes:
            self.claims.consider(fqdn)

    # -- the end --

    @property
    def drained(self) -> bool:
        """Whether no node is held any more."""
        return not len(self.claims)

    def drain(self, seconds: float) -> None:
        """Hand over the driven executions; nodes held after ``drain_seconds`` are given back, and others attach to their runs."""
        self.rolling.release()
        self.tasks.release()
        self.posting.release()
        if seconds >= self.context.settings.drain_seconds:
            self.claims.executor.release()

    def close(self) -> None:
        """End the threads; runs on machines go on."""
        self.lost()
        parts = (self.slots, self.claims.executor.installer, self.probing, self.powering, self.hooking, self.tidying)
        for threads in (*parts, self.context):
            threads.close()
        for name, jig in self.context.jigs.items():
            try:
                jig.close()
            except Exception as error:  # of a package of others; the rest is closed all the same
                log.warning("jig %s cannot be closed: %s", name, in_a_line(error))
