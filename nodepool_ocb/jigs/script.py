"""Jig script: runs a role's script on its machine over SSH, at most once at a time and never beside another.

The machine's runner (runner.sh) decides whether an order starts a run, attaches to one or adopts its result. So if a
connection breaks, this jig connects again and sends the same order, until the answer comes or the time is up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import Settings, SshSettings
from nodepool_ocb.engine.drift import HONOURED
from nodepool_ocb.errors import reason_of
from nodepool_ocb.jigs.jig import Detached, Failed, Fenced, Lost, Order, Outcome, Succeeded, Unknown, Unreachable
from nodepool_ocb.jigs.output import Output
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.conversation import Conversation
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.link import Broken, Lied, Link
from nodepool_ocb.jigs.ssh.pool import Pool, pool
from nodepool_ocb.jigs.ssh.protocol import Frame, Nonsense
from nodepool_ocb.jigs.ssh.runner import borrow, keep

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 90.0  # beyond the order's own time, which the machine keeps: for ending the run before it
REMEMBERED: Final = 10_000
NO_CHECK: Final = "its role has no check any more"
BACKOFF_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)


class SentOrder(msgspec.Struct, frozen=True):
    """An order that was sent. Its run may continue: this jig has not learnt its end."""

    epoch: int  # of the first such order for the same role and generation
    run: str  # of the newest


class ScriptJig:
    name = "script"
    instant = False
    attaches = True
    checks = True

    def __init__(self, settings: Settings) -> None:
        self._pool = pool(settings.ssh)
        self._asked: OrderedDict[tuple[str, str], SentOrder] = OrderedDict()  # by node, and role@generation

    def configure(self, settings: Settings) -> None:
        self._pool.configure(settings.ssh)

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        """Blocks until the run has ended, the machine has been out of reach for too long, or ``stop`` is set."""
        if wrong := protocol.misnamed(order):
            return Failed(wrong)
        prepared = self.prepared(order)
        return self._do(prepared, stop) if isinstance(prepared, Order) else prepared

    def prepared(self, order: Order) -> Order | Failed | Unknown:
        """The order with the script for the machine, or the reason why there is none."""
        own = order.definition.check
        if order.check and own != HONOURED:
            return replace(order, definition=replace(order.definition, script=own)) if own else Failed(NO_CHECK)
        return (
            order
            if order.definition.script
            else Failed(f"role {order.role} has no script; add one to its barclamp, and import that")
        )

    def beside(self, order: Order, link: Link) -> AbstractContextManager[object]:  # noqa: ARG002
        """Work on this host, over the same connection, while the order runs on the machine."""
        return nullcontext()

    def _do(self, order: Order, stop: threading.Event) -> Outcome:
        key = (order.node, protocol.name(order))
        with Output(order.log, order.log_bytes, order.mask) as output:
            asked = self._asked.get(key)
            errand = Errand(order, stop, output, self._pool, asked, partial(self.beside, order))
            outcome = errand.outcome()
        if isinstance(outcome, Succeeded | Failed) and outcome.log is None:  # its output was held back up to its end
            outcome = replace(outcome, log=output.file)
        if not isinstance(outcome, Unreachable | Unknown | Detached):
            self._asked.pop(key, None)
        elif errand.sent:  # if it was not sent, an earlier order of the same may still run
            self._asked[key] = SentOrder(asked.epoch if asked else order.epoch, order.run)
            while len(self._asked) > REMEMBERED:
                self._asked.popitem(last=False)
        return outcome

    def cancel(self, order: Order) -> Unreachable | Fenced | None:
        """Ask the machine's runner to end the runs of the order; its epoch must be the node's newest."""
        link = self._pool.take(order.node, order.record)
        if isinstance(link, Unreachable):
            return link
        try:
            return _end(link, order, self._pool.settings)
        except (Broken, Nonsense) as broken:
            self._pool.discard(link)
            return broken.unreachable if isinstance(broken, Broken) else Unreachable("run", str(broken))
        finally:
            self._pool.give_back(link)

    def close(self) -> None:
        self._pool.close()


def _end(link: Link, order: Order, settings: SshSettings) -> Unreachable | Fenced | None:
    runner = borrow(link, settings.state_dir, settings.connect_timeout_seconds)
    runner.send(protocol.end(order))
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        for heard in runner.hear(0.5):
            match heard:
                case Frame("ENDED"):
                    keep(link, runner)
                    return None
                case Frame("FENCED", (epoch, *_)):
                    keep(link, runner)
                    return Fenced(min(protocol.MOST, int(epoch)) if epoch.isdecimal() else protocol.MOST)
                case Frame("BUSY" | "BROKEN", words):
                    runner.close()
                    return Unreachable("run", " ".join(words))
    runner.close()
    return Unreachable("run", f"the machine's runner did not answer within {GRACE_SECONDS:g} s")


class Errand:
    """One order on its way to its outcome, over as many connections as it takes."""

    def __init__(
        self,
        order: Order,
        stop: threading.Event,
        output: Output,
        links: Pool,
        asked: SentOrder | None,
        beside: Callable[[Link], AbstractContextManager[object]],
    ) -> None:
        """``asked``: the order of the same role and generation that an earlier errand sent without learning its end."""
        self.sent = False  # the machine may know of it
        self._order, self._stop, self._output, self._pool = order, stop, output, links
        self._before = asked.epoch if asked else order.previous_epoch
        self._repeated = asked is not None and asked.run == order.run  # a machine without memory must not start it
        self._beside = beside
        self._deadline = time.monotonic() + order.timeout_seconds + GRACE_SECONDS
        self._lost_at: float | None = None  # when the connection broke after which none has held
        self._losses = 0
        self._lied = False  # the machine, when it was asked last

    def outcome(self) -> Outcome:
        while not self._stop.is_set():
            failure = self._attempt()
            if not isinstance(failure, Unreachable | Unknown):
                return failure
            if not self.sent or self._given_up():
                return replace(failure, begun=self.sent)
            self._stop.wait(BACKOFF_SECONDS[min(self._losses, len(BACKOFF_SECONDS)) - 1])
        return Detached()

    def _attempt(self) -> Outcome:
        """Unreachable where the connection broke, Unknown where this host failed: maybe only for now."""
        try:
            link = self._pool.take(self._order.node, self._order.record)
            return link if isinstance(link, Unreachable) else self._try(link)
        except Exception as error:
            if not self._losses:
                trace = not isinstance(error, OwnFault)  # which says all by itself
                log.warning(
                    "%s on %s: this host failed at it: %s", self._order.role, self._order.node, error, exc_info=trace
                )
            own = isinstance(error, OwnFault)
            said = str(error) if own else reason_of(error)
            return Unknown(said, begun=self.sent, reaching=own)

    def _given_up(self) -> bool:
        """After a loss the machine gets three times the connection's time-out to come back."""
        now = time.monotonic()
        self._losses += 1
        self._lost_at = self._lost_at or now
        patience = 3 * self._pool.settings.connect_timeout_seconds
        return self._lied or now > min(self._lost_at + patience, self._deadline)

    def _try(self, link: Link) -> Outcome:
        """Unreachable where the connection broke: maybe only for now."""
        settings = self._pool.settings
        try:
            runner = borrow(link, settings.state_dir, settings.connect_timeout_seconds)
            first = not (self.sent or self._repeated)
            known = None if first else self._output.position
            runner.send(protocol.run(self._order, runner.token, self._before, known))
            self.sent = True
            if self._before is None:
                self._before = self._order.epoch  # from now on it may have been started
            conversation = Conversation(self._order, link, runner, self._output, settings, first)
            with self._beside(link):
                outcome = conversation.outcome(self._stop, self._deadline, self._held)
            if isinstance(outcome, Lost):
                self._pool.discard(link)  # its runner may end now, and must get no further order
            return outcome
        except (Broken, Nonsense) as broken:
            self._lied = isinstance(broken, Lied | Nonsense)
            self._pool.discard(link)
            return broken.unreachable if isinstance(broken, Broken) else Unreachable("run", str(broken))
        except BaseException:
            self._pool.discard(link)
            raise
        finally:
            self._pool.give_back(link)

    def _held(self) -> None:
        """The machine has taken the order on this connection."""
        self._lost_at, self._losses = None, 0
