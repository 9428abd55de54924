"""The launcher's controller: it decides by the rules (nodepool_ocb.pool.deciding), and carries out their instructions.

All state here is a cache and can be lost. Transactions on requests are written on the turn thread. The launch and the deletion
of a node are steps of workers (``work.NodeWork``): a pool of workers for each provider, so no provider delays another.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.daemon.pausing import Pausing
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.turns import Turns
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.pool.deciding import decide
from nodepool_ocb.pool.launches.refusals import machines
from nodepool_ocb.pool.views import PoolLauncher, PoolNodeView, PoolView
from nodepool_ocb.store import clusters, daemons
from nodepool_ocb.store.pool.cache import PoolCache
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_launcher.carrying import InstructionCarrier
from nodepool_ocb_launcher.components import PoolComponents
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.leftovers import Leftovers
from nodepool_ocb_launcher.lives import Lives
from nodepool_ocb_launcher.upkeep import ProviderUpkeep, merged, placed
from nodepool_ocb_launcher.works import NodeWorks

log = logging.getLogger(__name__)

ABANDON_SECONDS: Final = 8.0  # after all was told to end: work that is still not over is left as if we had died
CLOSE_SECONDS: Final = 3.0


class Launcher:
    """All on the turn thread, but for ``doing`` and ``lost``."""

    def __init__(self, context: LauncherContext, daemon: Daemon) -> None:
        self.context = context
        session = context.session
        self.registration = Registration(session, ClientKind.LAUNCHER, context.id, daemon)
        self.turns = Turns(session, self.registration, self)
        wake = self.turns.wake.set
        self.pausing = Pausing(session, ClientKind.LAUNCHER, self.registration, wake)
        self.components = PoolComponents(session, context.host)
        self.cache = PoolCache(session, context.locks, wake)
        self.works = NodeWorks(context, wake)
        self._carrier = InstructionCarrier(context, self.works, wake)
        self._upkeep = ProviderUpkeep(context, wake, self.turns.post)
        self._leftovers = Leftovers(context, self.cache)
        self._lives = Lives()
        self._seeded = False
        context.records = self._records
        self.trouble: str | None = None

    # -- reads --

    @property
    def sweep_seconds(self) -> float:
        """The time from one sweep to the next."""
        return self.context.settings.launcher.sweep_seconds

    def load(self) -> None:
        """A new session: the works of the former one end; register, and read everything."""
        context, session = self.context, self.context.session
        cluster = clusters.current(session, context.cluster)
        context.cluster, context.admin_domain = cluster.id, context.settings.admin_domain or cluster.admin_domain
        self.works.begin_anew()
        context.locks.sweep()
        self.registration.change(keeps=self._keeps())
        self.registration.write()
        context.journal.load()
        self.pausing.load()
        context.roster.load()
        self._register_pools()
        self.cache.load()

    def refresh(self) -> None:
        """Read the changes, and free the locks that were left behind when the connection broke."""
        self.context.locks.sweep()
        self.cache.refresh()

    def sweep(self) -> None:
        """Read everything."""
        context = self.context
        context.locks.sweep()
        clusters.current(context.session, context.cluster)
        self.components.check()
        self.registration.compare(daemons.read(context.session, ClientKind.LAUNCHER).get(context.id))
        context.roster.sweep()
        self.cache.sweep()
        self._leftovers.sweep()

    def _keeps(self) -> tuple[str, ...]:
        """The labels that the file wants to be ready."""
        return tuple(sorted(name for name, label in self.context.configuration.labels.items() if label.min_ready))

    def lost(self) -> None:
        """The session has ended: all claims are void; on the connection's thread."""
        self.context.halt.set()
        self.turns.wake.set()

    # -- work --

    def decide(self) -> float:
        """Carry out all that is due; gives the seconds until more will be."""
        context, now = self.context, self.context.session.now()
        if self.pausing.look():
            log.info("paused %s", self.pausing.paused) if self.pausing.paused else log.info("resumed")
        self._register_pools()
        self.works.reap()
        self._answer()
        view = self._view()
        decision = decide(view, context.configuration, self._me(), now)
        self._carrier.carry_out(view, decision.steps)
        wait = min(self.works.start(), self._look_around(view))
        context.journal.trim()
        self._count(view)
        seconds = float("inf") if decision.seconds is None else decision.seconds
        return max(0.0, min(wait, seconds, self.pausing.seconds, self.sweep_seconds))

    def _answer(self) -> None:
        """Create and delete nodes of /ocb for works, and wake the works with news of theirs."""
        context = self.context
        needed = any(label.annealed for label in context.configuration.labels.values())
        needed = needed or any(calls.of_fleet for calls in context.providers.values())
        self.works.changed(context.roster.answer(context.admin_domain, needed))

    def _view(self) -> PoolView:
        context = self.context
        faults = {name: fault for name, calls in context.providers.items() if (fault := calls.fault) is not None}
        quotas = merged(self.cache.quotas, self._upkeep.quotas)
        view = self.cache.view(quotas, faults, self._lives.medians)
        if view.unreadable:
            view = replace(view, unreadable=placed(view.unreadable, self._upkeep.tagged))
        if not self._seeded:
            self._seeded = True
            self._lives.seed(view.nodes)
        self._lives.see(view.nodes, context.session.now())
        context.images, context.machines = view.images, machines(view.nodes.values())
        return view

    def _records(self) -> tuple[Mapping[str, PoolNodeView], set[str]]:
        """The nodes as they are now, and the ids of unreadable ones: for a comparison with a listing."""
        self.cache.refresh()
        return self.cache.view().nodes, {path.rpartition("/")[2] for path in self.cache.nodes.quarantined}

    def _me(self) -> PoolLauncher:
        """This launcher, as the rules see it."""
        return PoolLauncher(id=self.context.id, session=self.context.session.id, pools=self.components.ids)

    def _look_around(self, view: PoolView) -> float:
        """Leaks and quotas; a quota that changed is told to all launchers."""
        if self.turns.stop.is_set():
            return float("inf")
        wait = self._upkeep.look_around(view)
        if self.registration.record.quotas != self._upkeep.quotas:
            self.registration.change(quotas=dict(self._upkeep.quotas))
        return wait

    def _register_pools(self) -> None:
        """Register each pool, if its registration differs."""
        paused = self.pausing.paused is not None
        self.components.write(self.context.configuration, paused=paused, ending=self.turns.stop.is_set())

    def trouble_changed(self, trouble: str | None) -> None:
        """Nothing follows: everything is looked at in each turn."""

    def served_at(self, address: str | None) -> None:
        """HOST:PORT of our pages, or that there are none; before the first turn, or before ``reconfigured``."""
        self.registration.change(pages=address)

    def reconfigured(self) -> None:
        """The site has another configuration: everything is looked at again."""
        self.works.resize()
        self.registration.change(
            slots=self.context.settings.launcher.launch_workers, providers=tuple(self.context.providers)
        )
        self.turns.load_again()

    def doing(self) -> str:
        """The present work, in one sentence."""
        resting = (
            "draining: " if self.turns.draining else f"paused {self.pausing.paused}; " if self.pausing.paused else ""
        )
        return resting + (self.works.sentence() or "nothing to do")

    def _count(self, view: PoolView) -> None:
        for gauge, states, records in (
            (metrics.REQUESTS, RequestState, view.requests.values()),
            (metrics.POOL_NODES, PoolNodeState, view.nodes.values()),
        ):
            counts = Counter(each.record.state for each in records)
            for state in states:
                gauge.labels(str(state)).set(counts[state])
        metrics.QUARANTINED.set(len(self.cache.quarantined))

    # -- the end --

    @property
    def drained(self) -> bool:
        """Whether all work has ended, or the time of the wait is over."""
        late = self.context.settings.launcher.drain_seconds + ABANDON_SECONDS
        return not self.works.busy or self.turns.drained_for(late)

    def drain(self, seconds: float) -> None:
        """Works that wait are left to other launchers; calls under way get ``drain_seconds``."""
        self.works.release_idle()
        if seconds >= self.context.settings.launcher.drain_seconds:
            self.context.halt.set()
            self.context.roster.questions.drop("this launcher ends")

    def close(self) -> None:
        """End all that is being done, as well as it can be in a few seconds."""
        self.context.halt.set()
        ends = time.monotonic() + CLOSE_SECONDS
        self.works.wait(ends)
        self._upkeep.wait(max(0.0, ends - time.monotonic()))
        for calls in self.context.providers.values():
            calls.close()
