"""Calls that other threads want made on the turn thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.telemetry.logs import failed

log = logging.getLogger(__name__)


class Inbox:
    """``wake`` is called as something comes in."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._cut_off = False  # the last call found no ZooKeeper

    def post(self, call: Callable[[], None]) -> None:
        """Have a call made; from any thread, and calls of one thread in their order."""
        self._calls.put(call)
        self._wake()

    def take(self) -> None:
        """Make the calls that are there, on this thread. One that raises is logged and counted, and costs no other.

        A broken connection to ZooKeeper is expected: it is logged once until a call succeeds, and counts as no failure.
        """
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            try:
                call()
                self._cut_off = False
            except Unavailable as gone:
                if not self._cut_off:
                    log.warning("ZooKeeper: %s; the daemon goes on when it is connected again", gone)
                self._cut_off = True
            except Exception as error:
                metrics.TURN_FAILURES.inc()
                failed(log, error, "handling an answer raised; the next turn goes on")
