"""The times at which hooks run, and the writes of their changes.

The records list the hooks that still must run, so a waiting hook outlives its annealer. A hook runs in a
thread; its changes are written together with the note that it has run. One that raises makes its noderole
ERROR (noderole hooks), or is logged and counted (node and deployment hooks).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Denied, Invalid, OcbError, Spoiled, Stale, Unavailable, reason_of
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Change, Deployment, DeploymentRole, Node, NodeRole
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.hooks import deployments, noderoles
from nodepool_ocb_annealer.hooks.installation import InstalledCode
from nodepool_ocb_annealer.hooks.job import Done, Job
from nodepool_ocb_annealer.hooks.nodes import NodeHooks
from nodepool_ocb_annealer.hooks.pending_hooks import at_work
from nodepool_ocb_annealer.hooks.scheduling import SEPARATOR, schedule
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 2.0
MENDED_SECONDS: Final = 60.0  # for one that met attributes that cannot be read; it goes on at once when they can be
MOST_AT_ONCE: Final = 16  # hooks under way; each holds the records that it sees
HOOKS_AT_ONCE: Final = 2  # of those, in threads


class Hooking:
    """Sets timers for hooks, runs them, and writes the results."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self._workers = WorkerQueue("hook", HOOKS_AT_ONCE, context.post)
        self._under_way: set[Timer] = set()
        self._awaits: dict[Timer, _Awaited] = {}
        self._queue: dict[Timer, None] = {}  # names alone: the input of a hook is put together when it runs
        self._installation = InstalledCode(context.registration)
        self._nodes = NodeHooks(context, self._installation)
        self._jobs: Mapping[TimerKind, Callable[[str], Job | None]] = {
            TimerKind.NODEROLE_HOOK: partial(noderoles.job, context, self._installation),
            TimerKind.NODE_HOOK: self._nodes.job,
            TimerKind.DEPLOYMENT_HOOK: partial(deployments.job, context, self._installation),
        }

    def look(self, touched: ChangeSet) -> None:
        """Set timers for changed records with a waiting hook."""
        for vertex in touched.vertices:
            self._nodes.note(vertex)
            if vertex.record.hooks:
                schedule(self._context, Timer(TimerKind.NODEROLE_HOOK, vertex.name), vertex.node.name)
        for fqdn in touched.nodes:
            view = self._context.world.nodes.get(fqdn)
            if view and view.record and (view.record.hooks or view.record.deleting):
                schedule(self._context, Timer(TimerKind.NODE_HOOK, fqdn), fqdn)
        if touched.has(Deployment, DeploymentRole):
            for (deployment, role), stored in self._context.world.deployment_roles.items():
                if stored.record.hooks or stored.record.deleting:
                    whom = f"{deployment}{SEPARATOR}{role}"
                    schedule(self._context, Timer(TimerKind.DEPLOYMENT_HOOK, whom), deployment)

    def look_at_all(self) -> None:
        """As ``look``, at everything: a waiting hook may be older than this process, or than the role's definition."""
        world = self._context.world
        self._nodes.forget_order()
        waiting = {vertex for vertex in world.vertices() if vertex.record.hooks}
        self.look(ChangeSet(vertices=waiting, nodes=set(world.nodes), kinds={Deployment}))

    def look_for_code(self) -> None:
        """If missing code was installed meanwhile, register it, and run its hooks."""
        self._installation.look_again()

    def has_code(self, vertex: Vertex) -> bool:
        """Whether the noderole may be claimed here, as far as that needs the code of its role."""
        stored = self._context.world.roles.get(vertex.role)
        if stored is None or "on_transition" not in stored.record.hooks or vertex.record.cancel_reason:
            return True
        return self._installation.has(vertex.role, stored.record.barclamp, "on_transition")

    def due(self, kind: TimerKind, about: str) -> None:
        """The timer is due: run the hook, unless it runs already."""
        asked = Timer(kind, about)
        if asked in self._under_way:
            return
        if len(self._under_way) >= MOST_AT_ONCE:
            self._queue[asked] = None
            return
        job = self._jobs[kind](about)
        awaited = self._awaits.get(asked)
        if job is not None and awaited is not None and awaited.shown is job.shown and self._at_work(awaited):
            schedule(self._context, asked, about, AGAIN_SECONDS)
            return
        self._awaits.pop(asked, None)
        if job is not None:
            self._under_way.add(asked)
            if not self._workers.ask(partial(_run, asked, job), partial(self._done, asked, job)):
                self._under_way.discard(asked)
                schedule(self._context, asked, about, AGAIN_SECONDS)

    def close(self) -> None:
        self._workers.close()

    # -- the outcome --

    def _done(self, asked: Timer, job: Job, ran: Ran) -> None:
        if ran.spoiled is not None:
            self._context.spoiled(ran.spoiled.path, str(ran.spoiled))
        if ran.done is not None:
            awaited = _Awaited(job.shown, [name for each in ran.done.hooked for name in each.refresh])
            if self._at_work(awaited):
                self._awaits[asked] = awaited
                self._ended(asked, ran.again_seconds)
                return
        self._write(asked, job, ran.done, ran.again_seconds)

    def _at_work(self, awaited: _Awaited) -> bool:
        return at_work(self._context.world, awaited.names, self._context.session.now())

    def _write(self, asked: Timer, job: Job, done: Done | None, again_seconds: float) -> None:
        def impossible(why: str) -> None:
            self._write(asked, job, Done([], why, {}), again_seconds)

        failed = done is None or (done.error is not None and not done.hooked)
        changes = self._changes(asked, job, done)
        self._send(asked, list(limits.apart(changes)), again_seconds, None if failed else impossible)

    def _send(
        self,
        asked: Timer,
        parts: list[list[Change]],
        again_seconds: float,
        impossible: Callable[[str], None] | None,
    ) -> None:
        """One after the other, the note that the hook has run with the last: if one is refused the hook runs again.

        ``impossible`` is called with the reason where nothing like that can ever be written; None: it was.
        """
        if not parts:
            self._ended(asked, again_seconds)
            return
        first, *rest = parts

        def written(refused: OcbError | None) -> None:
            if refused is None and rest:
                self._send(asked, rest, again_seconds, impossible)
            elif isinstance(refused, Invalid) and impossible is not None:
                log.warning("%s: %s", asked, refused)
                impossible(str(refused))
            else:
                self._ended(asked, again_seconds if refused else 0.0)

        self._context.send(first, written, str(asked))

    @staticmethod
    def _changes(asked: Timer, job: Job, done: Done | None) -> list[Change]:
        """The changes that the hook wants; if they cannot be made, it has failed."""
        if done is None:
            return []
        for _ in range(2):
            try:
                return job.write(done)
            except Exception as error:
                log.exception("%s", asked)
                done = Done([], reason_of(error), {})
        return []

    def _ended(self, asked: Timer, again_seconds: float) -> None:
        self._under_way.discard(asked)
        schedule(self._context, asked, asked.about, again_seconds)  # another hook may wait
        while self._queue and len(self._under_way) < MOST_AT_ONCE:
            following = next(iter(self._queue))
            del self._queue[following]
            self.due(following.kind, following.about)


class _Awaited(NamedTuple):
    """The noderoles that a hook wants to run again, some of which run now: it is called again when that is over."""

    shown: DeploymentRole | Node | NodeRole  # for which it was called; for another record it is called at once
    names: list[str]


class Ran(NamedTuple):
    """The result of a hook: nothing if it must run again."""

    done: Done | None
    again_seconds: float = AGAIN_SECONDS
    spoiled: Spoiled | None = None  # attributes that it met and could not read


def _run(asked: Timer, job: Job) -> Ran:
    """In a worker."""
    try:
        return Ran(job.work())
    except (Stale, Unavailable, Denied) as error:
        log.warning("%s: %s", asked, error)
        return Ran(None)
    except Spoiled as wrong:
        return Ran(None, MENDED_SECONDS, wrong)
    except Exception as error:
        log.exception("%s", asked)
        return Ran(Done([], reason_of(error), {}))
