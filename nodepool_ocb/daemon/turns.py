"""The turn of every daemon, around its own decisions.

A turn makes the posted calls, drains if asked to, reads, lets the daemon decide, and writes its registration if that
changed. After a new session it reads everything; now and then it sweeps; else it reads the changes.

The threading rule: decisions are made on the turn thread, and calls that block are made by workers. Every method of
``Controller`` except ``doing`` is called on the turn thread, and so is every posted call; no lock guards a controller. A worker
gets values, and posts the result of its work. A watch wakes the turn, or sends the read that does. Any thread may call ``post``
and ``wake.set``.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from contextlib import suppress
from typing import Final, Protocol

from nodepool_ocb.daemon.inbox import Inbox
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.errors import NameTaken, NoCluster, Unavailable
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.5  # while ZooKeeper does not answer


class Controller(Protocol):
    """The decisions of one daemon. A method that reads may raise Unavailable: then a turn follows soon."""

    @property
    def sweep_seconds(self) -> float:
        """The time from one sweep to the next, about."""

    @property
    def trouble(self) -> str | None:
        """Why it is of no use now, in one sentence; None where it is."""

    def load(self) -> None:
        """A new session: former claims are void. Find the cluster, register, read everything. Raises NoCluster, NameTaken."""

    def refresh(self) -> None:
        """Read the changes."""

    def sweep(self) -> None:
        """Read everything: a wake-up that was lost is made good here. Raises NoCluster."""

    def decide(self) -> float:
        """Begin or write the consequences of the records; returns the seconds until the next call."""

    def trouble_changed(self, trouble: str | None) -> None:
        """It is in another trouble, or in none any more. That was logged; the registration is written after this."""

    def doing(self) -> str:
        """The present work, in one sentence; also called on other threads."""

    def drain(self, seconds: float) -> None:
        """Begin nothing more, and end present work; in each turn, ``seconds`` after the request to stop."""


class Turns:
    """Call ``turn`` whenever ``wake`` is set, and after the seconds that it gave."""

    def __init__(self, session: Session, registration: Registration, controller: Controller) -> None:
        self.wake = threading.Event()
        self.stop = threading.Event()  # set by a signal: drain, then end
        self._session, self._registration, self._controller = session, registration, controller
        self._inbox = Inbox(self.wake.set)
        self.post = self._inbox.post
        self._thread: int | None = None
        self._loaded_in = 0  # the session in which everything was read
        self._sweep_at = 0.0  # monotonic
        self._draining_since: float | None = None  # monotonic
        self._failing: str | None = None  # why turn after turn fails

    # -- the turn --

    def turn(self) -> float:
        """Read, decide, register; gives the seconds until the next turn is due by itself. Raises NoCluster and NameTaken."""
        self._thread = threading.get_ident()
        if self._session.dead:
            log.critical(
                "the connection to ZooKeeper cannot be restored: this daemon ends, and systemd starts it again"
            )
            sys.exit(1)
        self._inbox.take()
        if self.stop.is_set():
            self._drain()
        if not self._session.trusted:
            return AGAIN_SECONDS
        try:
            self._read()
            wait = self._controller.decide()
            self._register()
        except Unavailable as gone:
            log.warning("ZooKeeper: %s", gone)
            return AGAIN_SECONDS
        except NoCluster:
            self._session.close()  # the work under way is of another cluster: nothing of it is written here
            raise
        return max(0.0, min(wait, self._sweep_at - time.monotonic()))

    def _read(self) -> None:
        session = self._session.id
        if session != self._loaded_in:
            self._controller.load()
            self._loaded_in = session
            self._plan_sweep()
        elif time.monotonic() >= self._sweep_at:
            self._plan_sweep()  # first, for reading may fail
            metrics.SWEEPS.inc()
            self._controller.sweep()
        else:
            self._controller.refresh()

    def _plan_sweep(self) -> None:
        self._sweep_at = time.monotonic() + self._controller.sweep_seconds * random.uniform(0.9, 1.1)

    def here(self) -> bool:
        """Whether this is the turn thread, as far as one is known."""
        return self._thread in (None, threading.get_ident())

    # -- changes of its course --

    def load_again(self) -> None:
        """Everything is read anew in the next turn, as in a new session."""
        self._loaded_in = 0
        self.wake.set()

    def sweep_soon(self) -> None:
        """Sweep in the next turn."""
        self._sweep_at = 0.0
        self.wake.set()

    def failing(self, why: str | None) -> None:
        """Why turn after turn fails; None: one ended well again, and the next one says so. Raises Unavailable, NameTaken."""
        self._failing = why
        if why is None:
            self.wake.set()
        elif self._session.trusted and self._registration.stands:
            self._register()

    def _register(self) -> None:
        """A fault is logged once, and registered: the other daemons go first then."""
        before, trouble = self._registration.record.trouble, self._failing or self._controller.trouble
        if trouble != before:
            self._registration.change(trouble=trouble)
            log.warning("not ready: %s", trouble) if trouble else log.info(
                "ready again; this fault is over: %s", before
            )
            self._controller.trouble_changed(trouble)
            self.wake.set()  # the consequences are for the next turn
        self._registration.write()

    # -- the end --

    @property
    def draining(self) -> bool:
        """Whether nothing more is to be begun."""
        return self._draining_since is not None

    def drained_for(self, seconds: float) -> bool:
        """Whether it drains for as long already."""
        return self._draining_since is not None and time.monotonic() >= self._draining_since + seconds

    def _drain(self) -> None:
        if self._draining_since is None:
            self._draining_since = time.monotonic()
            log.info("%s", self._controller.doing())
            self._registration.change(state="draining")
            if self._session.trusted and self._registration.stands:
                with suppress(NameTaken, Unavailable):  # a later turn writes it
                    self._registration.write()
        self._controller.drain(time.monotonic() - self._draining_since)
