"""Who drives a rollout: one annealer each, the one that has its lock; any other goes on where it stopped.

The deployment's own record (``RolloutPointer``) says which rollout is under way and who drives it; every annealer has it in
its world, so nobody asks for anything while nothing happens. Where its driver is gone or drains, the others try the lock in
the order of their ranks. Whoever has it writes itself into that record, which refuses whatever another still sends, reads
the whole rollout, and looks at it in the next turn: so its world is never older than what it read.

The lock keeps two from working on the same; that nothing is decided twice rests on versions alone (store.rollouts).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.agenda import Agenda
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Invalid, OcbError, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete, LockOwner, RolloutPointer, State
from nodepool_ocb.rollout import report
from nodepool_ocb.rollout.records import OVER, GroupRecord, NodeState, Progress, RolloutRecord
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.cache import Cache
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.store.touched import Touched
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.appointments import Appointment, Matter
from nodepool_ocb_annealer.rollouts import driving
from nodepool_ocb_annealer.rollouts.driving import Driven, Move

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 1.0  # that nodes which came back wait for others, where nothing follows from them alone
PAUSE_SECONDS: Final = 0.02  # between two looks at a rollout, at least
SHARE: Final = 4  # of the time, at most one part in so many goes into looking
AGAIN_SECONDS: Final = 0.5  # until the lock is tried again
BROKEN_SECONDS: Final = 5.0  # after what should not have happened, at the most


class Context(Protocol):
    """What rolling needs of the annealer."""

    session: Session
    cache: Cache
    world: World
    agenda: Agenda[Appointment]
    ranking: Ranking
    identity: str
    registration: Registration
    settings: AnnealerSettings

    @property
    def draining(self) -> bool: ...
    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None: ...


class _Drive:
    """A rollout that we drive."""

    def __init__(self, lock: Lock, driven: Driven) -> None:
        self.lock = lock
        self.driven = driven
        self.concerned = driving.concerned(driven)
        self.writing = False
        self.reread = False  # somebody else wrote it, or may have
        self.quiet_since: float | None = None  # monotonic
        self.not_before = 0.0  # monotonic
        self.refusals = 0


class Rolling:
    """The rollouts that this annealer drives; everything is on the turn thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._locks = Locks(context.session)
        self._driven: dict[str, _Drive] = {}  # by deployment
        self._free_since: dict[str, float] = {}  # monotonic: since nobody is seen to drive it
        self._broken_until: dict[str, float] = {}  # monotonic: it could not go on, and is left alone till then
        self._faults: dict[str, str] = {}  # why it could not, for as long as that stays the same

    def __len__(self) -> int:
        return len(self._driven)

    # -- what wakes --

    def look(self, touched: Touched) -> None:
        """Appointments with the rollouts that what changed may move."""
        if touched.rollouts or touched.daemons:
            self.look_at_all()
        for deployment, drive in self._driven.items():
            concerns = touched.deployments or not drive.concerned.isdisjoint(touched.nodes)
            if concerns or any(vertex.record.state is State.ERROR for vertex in touched.vertices):
                self._appoint(deployment, drive.not_before)

    def look_at_all(self) -> None:
        """An appointment with each rollout that is under way, or that we drive."""
        for deployment, stored in self._context.world.rollouts.items():
            if not stored.record.over or deployment in self._driven:
                self._appoint(deployment, 0.0)

    def void(self) -> None:
        """The session is over, and every lock with it, or so we are told."""
        for drive in self._driven.values():
            self._locks.leave(drive.lock)
        self._driven.clear()
        self._free_since.clear()
        metrics.ROLLOUTS_DRIVEN.set(0)

    def release(self) -> None:
        """Hand over at once; what is sent already is written before that, or never."""
        for deployment, drive in list(self._driven.items()):
            self._forget(deployment)
            known = drive.driven.versions
            handed = rollouts.taken_over(deployment, known.rollouts, known.version, None, self._context.session.now())
            log.info("%s: handed over", drive.driven.name)
            self._context.send(
                [*handed, Delete(drive.lock.contender, 0)], partial(self._handed, drive), drive.driven.name
            )

    def _handed(self, drive: _Drive, refused: OcbError | None) -> None:
        """Where somebody wrote meanwhile, the lock alone: that we drain is seen, and whoever has the lock takes over."""
        if refused is not None:
            self._context.send([Delete(drive.lock.contender, 0)], lambda _: None, f"lock of {drive.driven.name}")

    def _appoint(self, deployment: str, when: float) -> None:
        self._context.agenda.at(max(when, time.monotonic()), Appointment(Matter.ROLLOUT, deployment))

    # -- an appointment --

    def due(self, deployment: str) -> None:
        """Go on with a rollout that we drive, or try to become its driver, if anybody must."""
        context = self._context
        stored = context.world.rollouts.get(deployment)
        drive = self._driven.get(deployment)
        if context.draining or paths.rollouts(deployment) in context.world.unreadable:
            return
        if not context.session.trusted:
            self._appoint(deployment, time.monotonic() + AGAIN_SECONDS)
            return
        if time.monotonic() < self._broken_until.get(deployment, 0.0):
            self._appoint(deployment, self._broken_until[deployment])
            return
        if drive is not None and (drive.writing or time.monotonic() < drive.not_before):
            if not drive.writing:
                self._appoint(deployment, drive.not_before)
            return  # else the answer makes the next appointment
        try:
            if drive is not None:
                self._go_on(deployment, drive, stored)
            elif stored is not None and self._wanted(deployment, stored):
                self._take(deployment, stored)
        except Stale:
            self._appoint(deployment, time.monotonic() + AGAIN_SECONDS)
        except Unavailable:
            self._appoint(deployment, time.monotonic() + AGAIN_SECONDS)
            raise
        except Exception as wrong:  # one rollout that cannot go on must not cost the others
            metrics.TURN_FAILURES.inc()
            self._log_once(deployment, wrong)
            self._broken_until[deployment] = time.monotonic() + BROKEN_SECONDS
            self._appoint(deployment, self._broken_until[deployment])

    def _log_once(self, deployment: str, wrong: Exception) -> None:
        """It is tried again every few seconds, for as long as nobody mends it."""
        if self._faults.get(deployment) != str(wrong):
            log.error("the rollout of deployment %s: %s", deployment, wrong, exc_info=not isinstance(wrong, OcbError))
            self._faults[deployment] = str(wrong)

    def _wanted(self, deployment: str, stored: Stored[RolloutPointer]) -> bool:
        """Whether it is under way, nobody drives it, and it is our turn."""
        context, record, now = self._context, stored.record, time.monotonic()
        driver = context.world.annealers.get(record.driver or "")
        if record.over or (driver is not None and driver.state == "running" and record.driver != context.identity):
            self._free_since.pop(deployment, None)
            return False
        since = self._free_since.setdefault(deployment, now)
        rank = 0 if record.driver == context.identity else context.ranking.of(f"rollout {deployment}")
        due = since + rank * context.settings.steal_delay_seconds
        if due > now:
            self._appoint(deployment, due)
        return due <= now

    def _take(self, deployment: str, stored: Stored[RolloutPointer]) -> None:
        """Take the lock, keep all others from writing, and read; one that cannot be read is left as it is."""
        context = self._context
        identity = stored.record.newest
        if identity is None or rollouts.read(context.session, deployment, identity) is None:
            return
        me = LockOwner(
            daemon=context.identity,
            host=context.registration.record.host,
            pid=context.registration.record.pid,
            purpose=f"rollout {identity} of deployment {deployment}",
            since=context.session.now(),
        )
        lock = self._locks.take(paths.rollout_lock(deployment, identity), me)
        if lock is None:
            self._appoint(deployment, time.monotonic() + AGAIN_SECONDS)
            return
        try:
            context.session.commit(
                rollouts.taken_over(deployment, stored.record, stored.version, context.identity, context.session.now())
            )
            found = rollouts.read(context.session, deployment, identity)
        except BaseException:
            self._locks.release(lock)
            raise
        if found is None or found[1].rollouts.driver != context.identity:
            self._locks.release(lock)
            return
        self._free_since.pop(deployment, None)
        drive = self._driven[deployment] = _Drive(lock, Driven(deployment, identity, *found))
        metrics.ROLLOUTS_DRIVEN.set(len(self._driven))
        log.info("%s: driven from now on", drive.driven.name)
        self._appoint(deployment, 0.0)  # in the next turn, of a world that is no older

    # -- driving --

    def _go_on(self, deployment: str, drive: _Drive, stored: Stored[RolloutPointer] | None) -> None:
        context = self._context
        if stored is None or not drive.lock.held(context.session):
            self._leave(deployment, drive)
            return
        if drive.reread or stored.version > drive.driven.versions.version:
            self._read_again(deployment, drive)
            return
        if drive.driven.rollout.over:
            self._leave(deployment, drive)
            return
        started = time.monotonic()
        move = driving.move(context.world, drive.driven, context.session.now(), context.cache.quarantined)
        ended = time.monotonic()
        metrics.ROLLOUT_STEP_SECONDS.observe(ended - started)
        drive.not_before = ended + max(PAUSE_SECONDS, (SHARE - 1) * (ended - started))
        if move.due is not None:
            self._appoint(deployment, ended + max(move.due - context.session.now(), 0.0))
        if not move.changes:
            drive.quiet_since = None
        elif move.quiet and self._may_wait(drive, ended):
            self._appoint(deployment, (drive.quiet_since or ended) + QUIET_SECONDS)
        else:
            self._write(deployment, drive, move)

    @staticmethod
    def _may_wait(drive: _Drive, now: float) -> bool:
        if drive.quiet_since is None:
            drive.quiet_since = now
        return now < drive.quiet_since + QUIET_SECONDS

    def _write(self, deployment: str, drive: _Drive, move: Move) -> None:
        drive.writing, drive.quiet_since = True, None
        self._context.send(
            list(move.changes), lambda refused: self._written(deployment, drive, move, refused), drive.driven.name
        )

    def _written(self, deployment: str, drive: _Drive, move: Move, refused: OcbError | None) -> None:
        drive.writing = False
        if self._driven.get(deployment) is not drive:
            return
        if refused is None:
            drive.refusals = 0
            self._faults.pop(deployment, None)
            drive.driven = move.after
            drive.concerned = driving.concerned(move.after)
            _tell(drive.driven, move)
            self._appoint(deployment, drive.not_before)
            return
        ours = paths.ROLLOUTS + "/"
        drive.refusals += 1
        drive.reread = not isinstance(refused, Stale) or refused.path.startswith(ours)
        drive.not_before = time.monotonic() + min(PAUSE_SECONDS * 2 ** min(drive.refusals, 10), BROKEN_SECONDS)
        if isinstance(refused, Invalid):
            self._log_once(deployment, refused)
            drive.not_before = time.monotonic() + BROKEN_SECONDS
        self._appoint(deployment, drive.not_before)

    def _read_again(self, deployment: str, drive: _Drive) -> None:
        context = self._context
        found = rollouts.read(context.session, deployment, drive.driven.id)
        known = found[1].rollouts if found is not None else None
        if found is None or known is None or known.driver != context.identity or known.newest != drive.driven.id:
            self._leave(deployment, drive)
            return
        drive.reread = False
        drive.driven = Driven(deployment, drive.driven.id, *found)
        drive.concerned = driving.concerned(drive.driven)
        self._appoint(deployment, 0.0)  # in the next turn, of a world that is no older

    def _leave(self, deployment: str, drive: _Drive) -> None:
        """It is over, or another's, or we cannot know that it is ours."""
        self._forget(deployment)
        self._locks.release(drive.lock)
        self._appoint(deployment, 0.0)  # perhaps the next one is there

    def _forget(self, deployment: str) -> None:
        self._driven.pop(deployment, None)
        metrics.ROLLOUTS_DRIVEN.set(len(self._driven))


def _tell(driven: Driven, move: Move) -> None:
    """What was written, for the log: groups and the whole, and nodes that are lost."""
    metrics.ROLLOUT_WRITES.inc()
    for decision in move.decisions:
        match decision.record:
            case RolloutRecord():
                log.info("%s: %s", driven.name, decision.reason)
                if decision.record.state in OVER:
                    for line in report.logged(driven.rollout):
                        log.info("%s: %s", driven.name, line)
            case GroupRecord():
                log.info("%s: group %s %s", driven.name, decision.name, decision.reason)
            case Progress(state=NodeState.FAILURE | NodeState.UNKNOWN):
                log.warning("%s: node %s: %s", driven.name, decision.name, decision.reason)
