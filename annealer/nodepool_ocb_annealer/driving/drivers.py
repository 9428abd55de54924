"""The driver of a rollout or a run of tasks: the annealer that has its lock; another one continues after it.

The deployment's own record (``Pointer``) names the one under way and its driver. Every annealer has it in its world,
so an idle deployment causes no reads. If the driver is gone or drains, the others try the lock in the order
of their ranks. The holder of the lock writes itself into that record, which refuses later writes of another driver. Then it
reads all records, and looks at them in the next turn: so its world is never older than these records.

The lock keeps two annealers from the same work; only versions ensure that nothing is decided twice. ``Work`` has the
execution, and its next write.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Final, Generic

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid, OcbError, Stale, Unavailable
from nodepool_ocb.model.records import Daemon, Delete, Deployment, DeploymentRole, LockOwner, Pointer, State
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.driving.work import D, DrivingStep, Work
from nodepool_ocb_annealer.timer_kinds import Timer

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 1.0  # that nodes which came back wait for others, where nothing follows from them alone
PAUSE_SECONDS: Final = 0.02  # between two looks at one, at least
SHARE: Final = 4  # of the time, at most one part in so many goes into looking
AGAIN_SECONDS: Final = 0.5  # until the lock is tried again
BROKEN_SECONDS: Final = 5.0  # after an error that should not have happened, at the most
FAILURES: Final = 5  # in a row, after which another annealer is to drive: the fault may be one of this host
AWAY_SECONDS: Final = 60.0  # after which this annealer tries again, where no other drives it


class _Drive(Generic[D]):
    """One that we drive."""

    def __init__(self, lock: Lock, driven: D, nodes: frozenset[str]) -> None:
        self.lock = lock
        self.driven = driven
        self.nodes = nodes
        self.writing = False
        self.reread = False  # another annealer wrote it, or may have
        self.quiet_since: float | None = None  # monotonic
        self.not_before = 0.0  # monotonic
        self.refusals = 0


class Drivers(Generic[D]):
    """The executions of one kind that this annealer drives; everything is on the turn thread."""

    def __init__(self, context: AnnealerContext, work: Work[D]) -> None:
        self._context, self._work = context, work
        self._locks = Locks(context.session)
        self._driven: dict[str, _Drive[D]] = {}  # by deployment
        self._free_since: dict[str, float] = {}  # monotonic: since no annealer is seen to drive it
        self._broken_until: dict[str, float] = {}  # monotonic: it could not go on, and is left alone till then
        self._faults: dict[str, str] = {}  # why it could not, for as long as that stays the same
        self._failures: dict[str, int] = {}  # how many times in a row it could not

    def __len__(self) -> int:
        return len(self._driven)

    # -- waking --

    def look(self, touched: ChangeSet) -> None:
        """Set timers for the executions that the changes may move."""
        if self._work.concerns(touched) or touched.has(Daemon):
            self.look_at_all()
        for deployment, drive in self._driven.items():
            concerns = touched.has(Deployment, DeploymentRole) or not drive.nodes.isdisjoint(touched.nodes)
            if concerns or any(vertex.record.state is State.ERROR for vertex in touched.vertices):
                self._schedule(deployment, drive.not_before)

    def look_at_all(self) -> None:
        """A timer with each that is under way, or that we drive."""
        for deployment, stored in self._work.pointers(self._context.world).items():
            if not stored.record.over or deployment in self._driven:
                self._schedule(deployment, 0.0)

    def sweep(self) -> None:
        """Take away the locks that could not be released; no request where there are none. Raises Unavailable."""
        self._locks.sweep()

    def void(self) -> None:
        """The session is over, and every lock with it, or so we are told."""
        for drive in self._driven.values():
            self._locks.leave(drive.lock)
        self._driven.clear()
        self._free_since.clear()
        self._work.count(0)

    def release(self) -> None:
        """Hand over at once; transactions already sent are applied before the hand-over, or refused."""
        for deployment, drive in list(self._driven.items()):
            log.info("%s: handed over", drive.driven.name)
            self._hand_over(deployment, drive)

    def _hand_over(self, deployment: str, drive: _Drive[D]) -> None:
        self._forget(deployment)
        known, now = drive.driven, self._context.session.now()
        handed = pointers.taken_over(self._path(deployment), known.pointer, known.version, None, now)
        self._context.send([handed, Delete(drive.lock.contender, 0)], partial(self._handed, drive), drive.driven.name)

    def _handed(self, drive: _Drive[D], refused: OcbError | None) -> None:
        """Where another wrote meanwhile, the lock alone: that we drain is seen, and the next holder of the lock takes over."""
        if refused is not None:
            let_go = partial(self._released, drive)
            self._context.send([Delete(drive.lock.contender, 0)], let_go, f"lock of {drive.driven.name}")

    def _released(self, drive: _Drive[D], refused: OcbError | None) -> None:
        if refused is not None:  # the lock may stand, and would keep every annealer out, this one too
            self._locks.leave(drive.lock)

    def _path(self, deployment: str) -> str:
        """Of the deployment's pointer."""
        return f"{self._work.root}/{deployment}"

    def _schedule(self, deployment: str, when: float) -> None:
        self._context.timers.at(max(when, time.monotonic()), Timer(self._work.timer_kind, deployment))

    # -- a timer --

    def due(self, deployment: str) -> None:
        """Continue one that we drive, or try to become its driver, if it needs one."""
        context = self._context
        stored = self._work.pointers(context.world).get(deployment)
        drive = self._driven.get(deployment)
        if context.resting or self._path(deployment) in context.world.unreadable:
            return
        if not context.session.trusted:
            self._schedule(deployment, time.monotonic() + AGAIN_SECONDS)
            return
        if time.monotonic() < self._broken_until.get(deployment, 0.0):
            self._schedule(deployment, self._broken_until[deployment])
            return
        if drive is not None and (drive.writing or time.monotonic() < drive.not_before):
            if not drive.writing:
                self._schedule(deployment, drive.not_before)
            return  # else the answer makes the next timer
        try:
            if drive is not None:
                self._go_on(deployment, drive, stored)
            elif stored is not None and self._wanted(deployment, stored):
                self._take(deployment, stored)
            self._failures.pop(deployment, None)
        except Stale:
            self._schedule(deployment, time.monotonic() + AGAIN_SECONDS)
        except Unavailable:
            self._schedule(deployment, time.monotonic() + AGAIN_SECONDS)
            raise
        except Exception as wrong:  # one that cannot go on must not cost the others
            metrics.TURN_FAILURES.inc()
            self._log_once(deployment, wrong)
            self._leave_alone(deployment, stored)

    def _leave_alone(self, deployment: str, stored: Stored[Pointer] | None) -> None:
        """For a while; after several failures in a row for longer, and another annealer may drive it."""
        failures = self._failures[deployment] = self._failures.get(deployment, 0) + 1
        seconds = BROKEN_SECONDS
        if failures >= FAILURES:
            seconds = AWAY_SECONDS
            self._failures.pop(deployment)
            self._let_go(deployment, stored)
        self._broken_until[deployment] = time.monotonic() + seconds
        self._schedule(deployment, self._broken_until[deployment])

    def _let_go(self, deployment: str, stored: Stored[Pointer] | None) -> None:
        """No annealer drives it any more, as far as this annealer does now: it has the lock, or wrote itself into the pointer."""
        context, drive = self._context, self._driven.get(deployment)
        what = f"{self._work.what} of deployment {deployment}"
        if drive is not None:
            log.warning("the %s: handed over, after %d failures in a row", what, FAILURES)
            self._hand_over(deployment, drive)
        elif stored is not None and not stored.record.over and stored.record.driver == context.identity:
            log.warning("the %s: left to another annealer, after %d failures in a row", what, FAILURES)
            path, now = self._path(deployment), context.session.now()
            free = pointers.taken_over(path, stored.record, stored.version, None, now)
            context.send([free], lambda _: None, what)

    def _log_once(self, deployment: str, wrong: Exception) -> None:
        """It is retried every few seconds, until it is mended."""
        if self._faults.get(deployment) != str(wrong):
            what, trace = self._work.what, not isinstance(wrong, OcbError)
            log.error("the %s of deployment %s: %s", what, deployment, wrong, exc_info=trace)
            self._faults[deployment] = str(wrong)

    def _wanted(self, deployment: str, stored: Stored[Pointer]) -> bool:
        """Whether it is under way without a driver, and it is our turn."""
        context, record, now = self._context, stored.record, time.monotonic()
        driver = context.world.annealers.get(record.driver or "")
        if record.over or (driver is not None and driver.state == "running" and record.driver != context.identity):
            self._free_since.pop(deployment, None)
            return False
        since = self._free_since.setdefault(deployment, now)
        rank = 0 if record.driver == context.identity else context.ranking.of(f"{self._work.what} {deployment}")
        due = since + rank * context.settings.steal_delay_seconds
        if due > now:
            self._schedule(deployment, due)
        return due <= now

    def _take(self, deployment: str, stored: Stored[Pointer]) -> None:
        """Take the lock, keep all others from writing, and read; one that cannot be read is left as it is."""
        context, work = self._context, self._work
        identity = stored.record.newest
        known = work.read(deployment, identity) if identity is not None else None
        if identity is None or known is None:
            return
        if known.over:
            self._close(deployment, known)
            return
        me = LockOwner(
            daemon=context.identity,
            host=context.registration.record.host,
            pid=context.registration.record.pid,
            purpose=f"{work.what} {identity} of deployment {deployment}",
            since=context.session.now(),
        )
        lock = self._locks.take(work.lock(deployment, identity), me)
        if lock is None:
            self._schedule(deployment, time.monotonic() + AGAIN_SECONDS)
            return
        try:
            path, now = self._path(deployment), context.session.now()
            context.session.commit([pointers.taken_over(path, stored.record, stored.version, context.identity, now)])
            found = work.read(deployment, identity)
        except BaseException:
            self._locks.release(lock)
            raise
        if found is None or found.pointer.driver != context.identity:
            self._locks.release(lock)
            return
        self._free_since.pop(deployment, None)
        drive = self._driven[deployment] = _Drive(lock, found, work.nodes(found))
        work.count(len(self._driven))
        log.info("%s: driven from now on", drive.driven.name)
        self._schedule(deployment, 0.0)  # in the next turn, of a world that is no older

    def _close(self, deployment: str, known: D) -> None:
        """Have the pointer say that it is over: there is nothing to drive, and taking it over would have no end."""
        now = self._context.session.now()
        if not known.pointer.over:
            self._context.session.commit([pointers.closed(self._path(deployment), known.pointer, known.version, now)])
            log.warning("%s is over, and its pointer said that it is not: closed", known.name)
        self._free_since.pop(deployment, None)

    # -- driving --

    def _go_on(self, deployment: str, drive: _Drive[D], stored: Stored[Pointer] | None) -> None:
        context = self._context
        if stored is None or not drive.lock.held(context.session):
            self._leave(deployment, drive)
            return
        if drive.reread or stored.version > drive.driven.version:
            self._read_again(deployment, drive)
            return
        if drive.driven.over:
            self._leave(deployment, drive)
            return
        started = time.monotonic()
        move = self._work.move(context.world, drive.driven, context.session.now(), context.cache.quarantined)
        ended = time.monotonic()
        self._work.took(ended - started)
        drive.not_before = ended + max(PAUSE_SECONDS, (SHARE - 1) * (ended - started))
        if move.due is not None:
            self._schedule(deployment, ended + max(move.due - context.session.now(), 0.0))
        if not move.changes:
            drive.driven, drive.quiet_since = move.after, None
        elif move.quiet and self._may_wait(drive, ended):
            self._schedule(deployment, (drive.quiet_since or ended) + QUIET_SECONDS)
        else:
            self._write(deployment, drive, move)

    @staticmethod
    def _may_wait(drive: _Drive[D], now: float) -> bool:
        if drive.quiet_since is None:
            drive.quiet_since = now
        return now < drive.quiet_since + QUIET_SECONDS

    def _write(self, deployment: str, drive: _Drive[D], move: DrivingStep[D]) -> None:
        drive.writing, drive.quiet_since = True, None
        self._context.send(
            list(move.changes), lambda refused: self._written(deployment, drive, move, refused), drive.driven.name
        )

    def _written(self, deployment: str, drive: _Drive[D], move: DrivingStep[D], refused: OcbError | None) -> None:
        drive.writing = False
        if self._driven.get(deployment) is not drive:
            return
        if refused is None:
            drive.refusals = 0
            self._faults.pop(deployment, None)
            drive.driven = move.after
            drive.nodes = self._work.nodes(move.after)
            self._work.wrote()
            for level, line in move.lines:
                log.log(level, "%s: %s", drive.driven.name, line)
            self._schedule(deployment, drive.not_before)
            return
        drive.refusals += 1
        drive.reread = not isinstance(refused, Stale) or refused.path.startswith(f"{self._work.root}/")
        drive.not_before = time.monotonic() + min(PAUSE_SECONDS * 2 ** min(drive.refusals, 10), BROKEN_SECONDS)
        if isinstance(refused, Invalid):
            self._log_once(deployment, refused)
            drive.not_before = time.monotonic() + BROKEN_SECONDS
        self._schedule(deployment, drive.not_before)

    def _read_again(self, deployment: str, drive: _Drive[D]) -> None:
        found = self._work.read(deployment, drive.driven.id)
        ours = found is not None and found.pointer.driver == self._context.identity
        if found is None or not ours or found.pointer.newest != found.id:
            self._leave(deployment, drive)
            return
        drive.reread = False
        drive.driven = found
        drive.nodes = self._work.nodes(found)
        self._schedule(deployment, 0.0)  # in the next turn, of a world that is no older

    def _leave(self, deployment: str, drive: _Drive[D]) -> None:
        """It is over, or another's, or we cannot know that it is ours."""
        self._forget(deployment)
        self._locks.release(drive.lock)
        self._schedule(deployment, 0.0)  # perhaps the next one is there

    def _forget(self, deployment: str) -> None:
        self._driven.pop(deployment, None)
        self._work.count(len(self._driven))
