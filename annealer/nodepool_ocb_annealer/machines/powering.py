"""Carries out requests to switch machines on and off. ``engine.powering`` decides; a worker speaks with the BMC.

For all machines of a rack it is the annealer that ranks first for the rack, so that one annealer keeps the gap between two
machines. All on the turn thread, but for the worker.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from nodepool_ocb import power
from nodepool_ocb.config import SshSettings
from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.engine import powering
from nodepool_ocb.engine.powering import (
    AskAgain,
    CarryOutStep,
    FailRequest,
    PowerLimits,
    PowerSituation,
    TakeRequest,
    WaitForOthers,
)
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.power import MachinePower, Powered, PowerRequest, PowerStep
from nodepool_ocb.model.records import Daemon, Set
from nodepool_ocb.power import Endpoint, Power, PowerFault
from nodepool_ocb.power.commands import carried_out
from nodepool_ocb.power.rotating import either, rotated
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

AT_ONCE: Final = 16  # machines that this annealer switches


class PowerAccess(NamedTuple):
    """The keys of this host, and its patience."""

    secrets: Secrets
    ssh: SshSettings
    effect_seconds: float


class StepEnded(msgspec.Struct, frozen=True):
    """The end of a step: the state of the machine, and the reason of a failure. With neither, it is done again."""

    state: Powered | None
    reason: str | None = None
    fresh: bool = False  # the BMC has the fresh password


class Powering:
    """``look`` at records that changed, ``due`` at a timer."""

    def __init__(self, context: AnnealerContext, ssh: SshSettings) -> None:
        self._context, self._ssh = context, ssh
        self._workers = WorkerQueue("power", AT_ONCE, context.post)
        self._stop = threading.Event()
        self._under_way: dict[str, str] = {}  # node → id of the request that a worker or a write has
        self._known: set[str] = set()  # the annealers that ran at the newest look at all requests
        self._at_work: dict[str, MachinePower] = {}  # node → its record, with those that we are about to take
        self._waiting: dict[str, dict[str, None]] = {}  # chassis → nodes that wait for a place, in their order
        self._queued: dict[str, str] = {}  # node → the chassis of its place in ``_waiting``

    def configure(self, ssh: SshSettings) -> None:
        """Use these keys from now on."""
        self._ssh = ssh

    def look(self, touched: ChangeSet) -> None:
        """Set timers for the requests of the nodes that changed; for all requests after a change of the annealers."""
        if touched.has(Daemon) and self._living() != self._known:
            self.look_at_all()
            return
        found = powering.powers(self._context.world)
        if found or self._at_work or self._queued:
            for fqdn in touched.nodes:
                self._note(fqdn, found.get(fqdn))

    def look_at_all(self) -> None:
        """A timer for each request."""
        self._known = self._living()
        found = powering.powers(self._context.world)
        for fqdn in [*found, *(self._at_work.keys() - found.keys())]:
            self._note(fqdn, found.get(fqdn))

    def _note(self, fqdn: str, stored: Stored[MachinePower] | None) -> None:
        """Set a timer for its request, and wake one machine that waits for its place in a chassis."""
        before = self._at_work.pop(fqdn, None)
        if stored is not None and powering.at_work(stored.record):
            self._at_work[fqdn] = stored.record
        elif before is not None and before.chassis is not None:
            waiting = self._waiting.get(before.chassis, {})
            if (first := next(iter(waiting), None)) is not None:
                self._later(first, 0.0)
        if stored is not None and (stored.record.request is not None or stored.record.off_since is not None):
            self._later(fqdn, 0.0)
        else:
            self._leave_queues(fqdn)

    def _leave_queues(self, fqdn: str) -> None:
        chassis = self._queued.pop(fqdn, None)
        if chassis is not None:
            self._waiting[chassis].pop(fqdn, None)
            if not self._waiting[chassis]:
                del self._waiting[chassis]

    def _wait(self, fqdn: str, record: MachinePower, seconds: float) -> None:
        """Look again later, or as soon as a machine of the chassis is done."""
        self._later(fqdn, seconds)
        if record.chassis is not None and record.request is not None:
            self._leave_queues(fqdn)
            self._queued[fqdn] = record.chassis
            self._waiting.setdefault(record.chassis, {})[fqdn] = None

    def _living(self) -> set[str]:
        """The annealers that run."""
        return {name for name, daemon in self._context.world.annealers.items() if daemon.state == "running"}

    def void(self) -> None:
        """The session is over: answers of workers count for nothing, and steps are done again."""
        self._under_way.clear()

    def close(self) -> None:
        """End the workers without a wait."""
        self._stop.set()
        self._workers.close()

    def due(self, fqdn: str) -> None:
        """Continue with the request of a node."""
        context = self._context
        stored = powering.powers(context.world).get(fqdn)
        if (
            stored is None
            or fqdn in self._under_way
            or context.resting
            or paths.power(fqdn) in context.world.unreadable
        ):
            return
        now = context.session.now()
        again = powering.off_again(stored.record, now)
        if again is not None and now < again:
            self._later(fqdn, again - now)
            return
        decision = powering.decide(context.world, fqdn, self._situation(), now)
        if isinstance(decision, WaitForOthers):
            self._wait(fqdn, stored.record, decision.seconds)
            return
        self._leave_queues(fqdn)
        if isinstance(decision, CarryOutStep):
            self._carry_out(fqdn, decision.request)
        elif decision is not None and (rank := self._rank(fqdn, stored.record)):
            self._later(fqdn, rank)
        elif decision is not None:
            self._write(fqdn, decision)

    def _situation(self) -> PowerSituation:
        settings = self._context.settings
        return PowerSituation(
            annealer=self._context.identity,
            living=self._living(),
            limits=PowerLimits(at_once=settings.power_at_once, gap_seconds=settings.power_gap_seconds),
            at_work=self._at_work,
        )

    def _rank(self, fqdn: str, record: MachinePower) -> float:
        """The seconds that annealers before us have to take it; 0 if it is our turn."""
        request = record.request
        rank = self._context.ranking.of(powering.group(self._context.world, fqdn, record))
        now = self._context.session.now()
        since = max(request.since, request.began) if request is not None else powering.off_again(record, now) or 0.0
        return max(0.0, since + rank * self._context.settings.dead_probe_seconds - now)

    def _later(self, fqdn: str, seconds: float) -> None:
        self._context.timers.at(time.monotonic() + seconds, Timer(TimerKind.POWER, fqdn))

    def _write(self, fqdn: str, decision: TakeRequest | FailRequest | AskAgain) -> None:
        stored = powering.powers(self._context.world)[fqdn]
        request = stored.record.request or decision.record.request
        assert request is not None, "a decision is about a request"
        self._under_way[fqdn] = request.id
        if powering.at_work(decision.record):
            self._at_work[fqdn] = decision.record  # before it is written: the next decision counts it
        change = Set(paths.power(fqdn), decision.record, stored.version)
        self._context.send([change], partial(self._written, fqdn, request.id), f"power of {fqdn}")

    def _written(self, fqdn: str, request: str, refused: OcbError | None) -> None:
        """The cache has the record now, ours or the one that was faster."""
        if self._under_way.get(fqdn) == request:
            del self._under_way[fqdn]
        if refused is not None:
            log.debug("power of %s: %s", fqdn, refused)
            self._note(fqdn, powering.powers(self._context.world).get(fqdn))
        self._later(fqdn, 0.0 if refused is None else 1.0)

    def _carry_out(self, fqdn: str, request: PowerRequest) -> None:
        record = powering.record_of(self._context.world, fqdn).record
        log.info("%s: power %s for %s: %s", fqdn, request.action, request.by, request.step)
        self._under_way[fqdn] = request.id
        context = self._context
        access = PowerAccess(context.secrets, self._ssh, context.settings.power_effect_seconds)
        work = partial(_step, record, access, partial(getattr, context.session, "trusted"), self._stop)
        if not self._workers.ask(work, partial(self._ended, fqdn, request)):
            del self._under_way[fqdn]
            self._later(fqdn, 5.0)

    def _ended(self, fqdn: str, request: PowerRequest, ended: StepEnded) -> None:
        """Write the end of a step, if the record still has it."""
        context = self._context
        if self._under_way.get(fqdn) != request.id or self._stop.is_set():
            return
        stored = powering.powers(context.world).get(fqdn)
        if stored is None or stored.record.request != request:
            del self._under_way[fqdn]
            self._later(fqdn, 0.0)
            return
        if ended.reason is None and ended.state is None:
            del self._under_way[fqdn]
            self._later(fqdn, 1.0)
            return
        now = context.session.now()
        if ended.reason is not None:
            log.warning("%s: power %s: %s", fqdn, request.action, ended.reason)
            record = powering.failed(stored.record, ended.reason, ended.state, now)
        else:
            assert ended.state is not None, "a step ends with a state or a reason"
            record = powering.after(stored.record, ended.state, now)
        record = powering.confirmed(record) if ended.fresh else record
        change = Set(paths.power(fqdn), record, stored.version)
        context.send([change], partial(self._written, fqdn, request.id), f"power of {fqdn}")


def _step(record: MachinePower, access: PowerAccess, ours: Callable[[], bool], stop: threading.Event) -> StepEnded:
    """On a worker: do the step of the record's request."""
    request = record.request
    assert request is not None, "a step belongs to a request"
    try:
        given = endpoint(record, access.secrets, access.ssh)
        fresh = None if record.fresh is None else _password(access.secrets, record.fresh)

        def opened(password: str) -> Power:
            return power.opened(replace(given, password=password))

        if request.step is PowerStep.ROTATE:
            if fresh is None:
                return StepEnded(None, "there is no fresh password; ask for it again: nodepool-ocb power rotate")
            state = rotated(opened, given.password, fresh, ours)
            return StepEnded(state, fresh=state is not None)
        found, by_fresh = either(opened, given.password, fresh)
        with contextlib.closing(found):
            done = carried_out(found, request.step, request.network, ours, stop, access.effect_seconds)
            return StepEnded(done, fresh=by_fresh)
    except PowerFault as fault:
        return StepEnded(None, str(fault))
    except (Sealed, Invalid) as wrong:
        return StepEnded(None, f"{wrong}; set it again: nodepool-ocb power set")
    except Exception as error:  # of a library: the request ends, and says so
        log.exception("power of a machine at %s", record.address)
        return StepEnded(None, f"{type(error).__name__}: {error}")


def endpoint(record: MachinePower, secrets: Secrets, ssh: SshSettings | None = None) -> Endpoint:
    """The access of a record, with the password in plain text; may block. Raises Sealed."""
    return Endpoint(
        driver=record.driver,
        address=record.address,
        username=record.username,
        password="" if record.password is None else _password(secrets, record.password),
        options=record.options,
        login=ssh,
    )


def _password(secrets: Secrets, sealed: object) -> str:
    """The plain text. Raises Sealed."""
    opened = secrets.opened({"power": {"password": sealed}}).attributes
    return str(opened["power"]["password"])
