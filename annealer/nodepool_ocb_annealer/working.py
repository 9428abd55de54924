"""Slots, and what happens in one: attributes in, a jig, attributes out; then what its outcome means.

A jig that acts on a machine takes a slot and runs in a thread of its own; an instant one (noop) is run where it is
started. A machine that does not answer is asked once more before it counts as dead.
"""

from __future__ import annotations

import itertools
import logging
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb import claim, limits, metrics
from nodepool_ocb.aliveness import died
from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.hindrance import LONGEST_BACKOFF_SECONDS
from nodepool_ocb.jigs.jig import Detached, Failed, Fenced, Jig, Lost, Order, Outcome, Succeeded, Unreachable
from nodepool_ocb.model import Change, Check, Delete, NodeRole, Role, Run
from nodepool_ocb.noderole import Event, apply
from nodepool_ocb.store import paths
from nodepool_ocb.store.session import Session
from nodepool_ocb.world import NodeView, Vertex, World
from nodepool_ocb_annealer import attributes
from nodepool_ocb_annealer.hooking import on_transition

log = logging.getLogger(__name__)

REACH_AGAIN_SECONDS: Final = 1.0
TRUST_SECONDS: Final = 0.1
LOOK_FOR_OLD_RUNS: Final = 0.2  # of the runs
INSTANT: Final = Succeeded(attributes={}, exit_code=0, tail="", log=None)


class Held:
    """A node that this annealer works on, from the sending of the claim to the answer that gives it back."""

    def __init__(self, hold: claim.Hold, role: Role, session: int) -> None:
        self.hold = hold
        self.role = role  # as it was claimed: what becomes of the catalogue meanwhile does not matter
        self.session = session
        self.confirmed = False  # the claim is written
        self.finished: Finished | None = None  # what is to be written
        self.writing = False  # ... and is under way
        self.refusals = 0
        self.smallest = False  # what was to be written with it was refused as too large
        self.stop = threading.Event()  # for the jig: leave the run alone
        self.gone = threading.Event()  # the node is not ours any more
        self.ending: str | None = None  # the run is to be ended on its machine, and why
        self.unreached = 0
        self.releasing = False
        self.slot = False

    @property
    def name(self) -> str:
        return self.hold.vertex.name

    @property
    def fqdn(self) -> str:
        return self.hold.fqdn

    def let_go(self) -> None:
        """The node is not ours any more; from any thread."""
        self.gone.set()
        self.stop.set()

    def end(self, reason: str) -> None:
        """The run is to be ended: its jig leaves it alone first."""
        self.ending = reason
        self.stop.set()


class Finished(msgspec.Struct, frozen=True):
    """What a slot gives back."""

    outcome: Outcome
    ended: float
    results: Sequence[Change] = ()  # the wall, and records of old runs that may go
    again_after: float | None = None  # seconds; the machine did not answer, and is to be asked once more
    sent: dict[str, Any] | None = None  # the attributes that the jig was given


class Ending(msgspec.Struct, frozen=True):
    """What a finished run comes to."""

    alone: Callable[[], list[Change]]  # the transaction that writes it and gives the node back
    smallest: Callable[[], list[Change]]  # the same without any neighbour
    moved: dict[Vertex, NodeRole]
    run: Run
    event: Event
    may_pass_on: bool  # whether the same transaction may claim the next noderole of the node


class Working:
    """The slots of one annealer. Call everything from the turn thread; ``post`` brings answers back to it."""

    def __init__(
        self,
        session: Session,
        world: World,
        settings: AnnealerSettings,
        jigs: dict[str, Jig],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._session, self._world, self._settings, self._jigs, self._post = session, world, settings, jigs, post
        self._threads = ThreadPoolExecutor(max_workers=settings.slots, thread_name_prefix="slot")
        self._busy = 0
        self._token, self._count_of_runs = secrets.token_hex(3), itertools.count(16)
        metrics.SLOTS.set(settings.slots)

    # -- slots --

    @property
    def free(self) -> bool:
        return self._busy < self._settings.slots

    def room(self, vertex: Vertex, instead_of: Held | None = None) -> bool:
        """Whether the noderole could start now, in the slot of ``instead_of`` if that has one."""
        return self._instant(self._world.role_of(vertex)) or self.free or (instead_of is not None and instead_of.slot)

    def occupy(self, held: Held) -> None:
        if not self._instant(held.role):
            held.slot = True
            self._count(+1)

    def vacate(self, held: Held) -> None:
        if held.slot:
            held.slot = False
            self._count(-1)

    def pass_on(self, held: Held, following: Held) -> None:
        """The next noderole of the node takes over the slot, where it needs one."""
        self.vacate(held)
        self.occupy(following)

    def resize(self, settings: AnnealerSettings) -> None:
        """Take over new settings; a run that has begun keeps its slot."""
        if settings.slots != self._settings.slots:
            self._threads.shutdown(wait=False)
            self._threads = ThreadPoolExecutor(max_workers=settings.slots, thread_name_prefix="slot")
        self._settings = settings
        metrics.SLOTS.set(settings.slots)

    def vacate_all(self) -> None:
        """Nothing is held any more."""
        self._count(-self._busy)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _count(self, change: int) -> None:
        self._busy += change
        metrics.SLOTS_BUSY.set(self._busy)

    def _instant(self, role: Role) -> bool:
        """Whether there is nothing to run."""
        return self._jigs[role.jig].instant and "on_transition" not in role.hooks

    # -- running --

    def name_run(self, view: NodeView) -> str:
        """A name for a coming run on a node: sorts by epoch, and is a token that no other claim has."""
        return f"{view.fence + 1:010d}-{self._token}{next(self._count_of_runs):x}"

    def start(self, held: Held, done: Callable[[Finished], None], after_seconds: float = 0.0) -> Finished | None:
        """Run the jig of what is held: gives what it came to where there is nothing to run, else ``done`` is called later."""
        if self._instant(held.role):
            return Finished(Failed(held.ending) if held.ending else INSTANT, self._session.now())
        sources = attributes.sources(self._world, held.hold.vertex, held.role)
        self._threads.submit(self._work, held, held.role, sources, done, after_seconds)
        return None

    def read_wall_again(self, held: Held, finished: Finished, done: Callable[[Finished], None]) -> None:
        """Somebody wrote the wall meanwhile: what the jig gave back is to go on top of that."""

        def work() -> None:
            results: list[Change] = []
            try:
                vertex = held.hold.vertex
                path = paths.wall(vertex.role, held.fqdn)
                if isinstance(finished.outcome, Succeeded) and finished.sent is not None:
                    read = {path: self._session.get(path)}
                    results = attributes.wall_changes(vertex, read, finished.sent, finished.outcome.attributes)
            except OcbError as error:
                log.warning("%s: %s", held.name, error)
                results = list(finished.results)
            self._post(lambda: done(replace(finished, results=results)))

        self._threads.submit(work)

    def _work(
        self,
        held: Held,
        role: Role,
        sources: attributes.Sources,
        done: Callable[[Finished], None],
        after_seconds: float,
    ) -> None:
        """In a slot's thread."""
        (held.gone if held.ending else held.stop).wait(after_seconds)
        self._await_trust(held)
        finished: Finished | None = None
        try:
            if not held.stop.is_set():
                finished = self._run(held, role, sources)
            if finished is None and held.ending and not held.gone.is_set():
                finished = self._end(held, held.ending)
        except (Stale, Unavailable) as error:
            log.warning("%s: %s", held.name, error)
            finished = Finished(
                Unreachable("zookeeper", str(error)), self._session.now(), again_after=REACH_AGAIN_SECONDS
            )
        except OcbError as error:
            finished = Finished(Failed(str(error)), self._session.now())
        except Exception as error:
            log.exception("%s: jig %s raised", held.name, role.jig)
            finished = Finished(Failed(f"jig {role.jig} raised {type(error).__name__}: {error}"), self._session.now())
        if finished is not None:
            self._post(lambda: done(finished))

    def _await_trust(self, held: Held) -> None:
        """Nothing starts while the claim may be gone; a new session has set ``stop``."""
        while not (self._session.trusted and self._session.id == held.session):
            if held.gone.wait(TRUST_SECONDS):
                return

    def _run(self, held: Held, role: Role, sources: attributes.Sources) -> Finished | None:
        hold, started = held.hold, time.monotonic()
        if hold.previous_epoch is not None and "destructive" in role.flags and not self._jigs[role.jig].attaches:
            return Finished(
                Lost(f"it was started under epoch {hold.previous_epoch}, and nobody saw it end"), self._session.now()
            )
        if "on_transition" in role.hooks and (error := on_transition(self._session, hold, role.barclamp)):
            return Finished(Failed(f"on_transition: {error}"), self._session.now())
        blobs = attributes.read(self._session, sources)
        sent = attributes.visible(sources, blobs)
        outcome = self._jigs[role.jig].run(self._order(hold, role, sent), held.stop)
        metrics.RUN_SECONDS.labels(role.jig).observe(time.monotonic() - started)
        if isinstance(outcome, Detached):
            return None  # the node is not ours any more
        again_after = None
        if isinstance(outcome, Unreachable):
            held.unreached += 1
            again_after = REACH_AGAIN_SECONDS if held.unreached < 2 else None
        results: list[Change] = []
        if isinstance(outcome, Succeeded):
            results = attributes.wall_changes(hold.vertex, blobs, sent, outcome.attributes)
        ended = self._session.now()
        self._drop_old_runs(hold)
        return Finished(outcome, ended, results, again_after, sent)

    def _end(self, held: Held, reason: str) -> Finished | None:
        """Have what runs on the machine ended; nothing of ours gives it orders meanwhile."""
        hold = held.hold
        outcome = self._jigs[held.role.jig].end(self._order(hold, held.role, {}))
        if isinstance(outcome, Unreachable):
            held.unreached += 1
            return Finished(
                outcome, self._session.now(), again_after=REACH_AGAIN_SECONDS if held.unreached < 2 else None
            )
        return Finished(outcome or Failed(reason), self._session.now())

    def _order(self, hold: claim.Hold, role: Role, sent: dict[str, Any]) -> Order:
        record = hold.vertex.node.record
        assert record is not None, "a claim checks the node"
        return Order(
            node=hold.fqdn,
            record=record,
            role=hold.vertex.role,
            definition=role,
            generation=hold.record.generation,
            epoch=hold.epoch,
            previous_epoch=hold.previous_epoch,
            run=hold.run,
            attributes=sent,
            timeout_seconds=role.timeout_seconds,
            log=self._log_file(hold),
        )

    def _log_file(self, hold: claim.Hold) -> Path | None:
        folder = self._settings.log_dir
        return Path(folder, hold.fqdn, f"{hold.vertex.role}-{hold.run}.log") if folder else None

    def _drop_old_runs(self, hold: claim.Hold) -> None:
        """Keep the records of the newest ten runs; who sees them meanwhile loses nothing that matters.

        Looked for after one run in five, by chance: what is left over now goes next time, and a look is a request.
        """
        place = hold.vertex.role, hold.fqdn
        if hold.epoch <= attributes.RUNS_KEPT or random.random() > LOOK_FOR_OLD_RUNS:
            return  # the node has not seen as many, or it is not its turn
        names = sorted(self._session.children(paths.runs(*place)) or [])
        surplus = limits.singly(Delete(paths.run(*place, name), 0) for name in names[: 1 - attributes.RUNS_KEPT])
        if deletions := limits.cut((), surplus):
            try:
                self._session.commit(deletions)
            except OcbError as error:
                log.info("old runs of %s stay for now: %s", hold.vertex.name, error)

    # -- what it comes to --

    def ending(self, held: Held, finished: Finished, now: float) -> Ending:
        """The changes that an outcome makes; raises Conflict where the state machine refuses it."""
        hold, vertex, outcome = held.hold, held.hold.vertex, finished.outcome
        role = held.role
        run = self._record(hold, finished)
        metrics.RUNS.labels(role.jig, run.outcome).inc()
        if isinstance(outcome, Unreachable):
            return self._dead(hold, outcome, run, now)
        if vertex.record.ending:  # whatever it came to
            moved = apply({vertex: Event.FAIL}, now, by=hold.annealer, reason=vertex.record.ending)
            return self._of_run(hold, moved, run, Event.FAIL)
        event, more = _event(outcome, hold.record, role, now)
        moved = apply({vertex: event}, now, by=hold.annealer, reason=run.reason)
        if more:
            moved[vertex] = replace(moved[vertex], **more)
        return self._of_run(hold, moved, run, event, finished.results)

    @staticmethod
    def _of_run(
        hold: claim.Hold, moved: dict[Vertex, NodeRole], run: Run, event: Event, results: Sequence[Change] = ()
    ) -> Ending:
        alone = partial(claim.finishing, hold, moved, run, results)
        own = {hold.vertex: moved[hold.vertex]}
        smallest = partial(claim.finishing, hold, own, run, results)
        return Ending(alone, smallest, moved, run, event, may_pass_on=event is Event.SUCCEED)

    @staticmethod
    def _dead(hold: claim.Hold, outcome: Unreachable, run: Run, now: float) -> Ending:
        reason = f"{outcome.step}: {outcome.reason}"
        end = Check(paths.fence(hold.fqdn), hold.epoch), Delete(paths.claim(hold.fqdn), hold.claim_version)
        # where the node is not available the noderole stays in TRANSITION: who takes it over accounts for the run
        changes = died(hold.vertex.node, now, reason, by=hold.annealer, ended=(hold.vertex, run), together=end)
        log.warning("%s is not alive: %s", hold.fqdn, reason)
        return Ending(lambda: changes, lambda: changes, {}, run, Event.NODE_DIED, may_pass_on=False)

    @staticmethod
    def _record(hold: claim.Hold, finished: Finished) -> Run:
        outcome = finished.outcome
        told = outcome if isinstance(outcome, Succeeded | Failed) else None
        return Run(
            annealer=hold.annealer,
            started=hold.started,
            ended=finished.ended,
            outcome=type(outcome).__name__.lower(),
            generation=hold.record.generation,
            epoch=hold.epoch,
            exit_code=told.exit_code if told else None,
            reason=_reason(outcome),
            tail=(told.tail or None) if told else None,
            log=f"{socket.gethostname()}:{told.log}" if told and told.log else None,
        )


def _reason(outcome: Outcome) -> str | None:
    if isinstance(outcome, Fenced):
        return (
            f"the machine has taken orders of epoch {outcome.epoch}, which this cluster never gave: it is or was managed"
            " by another; if that is over, remove its state directory"
        )
    if isinstance(outcome, Unreachable):
        return f"{outcome.step}: {outcome.reason}"
    return None if isinstance(outcome, Succeeded) else outcome.reason


def _event(outcome: Outcome, record: NodeRole, role: Role, now: float) -> tuple[Event, dict[str, Any]]:
    """The event of an outcome, and what else it sets in the record."""
    if isinstance(outcome, Succeeded):
        return Event.SUCCEED, {}
    if isinstance(outcome, Lost):
        return Event.LOSE, {}
    if isinstance(outcome, Failed) and record.attempt <= role.retries:
        wait = min(role.backoff_seconds * 2 ** (record.attempt - 1), LONGEST_BACKOFF_SECONDS)
        return Event.DEFER, {"not_before": now + wait}
    return Event.FAIL, {}
