"""Threads for work that takes long: each piece has a name, and is done once at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable

from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.telemetry.logs import failed

log = logging.getLogger(__name__)


class WorkerPool:
    """Does work on threads, ``size`` pieces at a time at most; ``wake`` is called as each ends."""

    def __init__(self, name: str, size: int, wake: Callable[[], None]) -> None:
        self.size = size
        self._name, self._wake = name, wake
        self._busy: set[Hashable] = set()
        self._change = threading.Condition()

    def start(self, key: Hashable, work: Callable[[], None]) -> bool:
        """Begin, unless this is being done already or nobody is free; whether it began."""
        with self._change:
            if key in self._busy or len(self._busy) >= self.size:
                return False
            self._busy.add(key)
        try:
            threading.Thread(target=self._work, args=(key, work), name=f"{self._name} {key}", daemon=True).start()
        except RuntimeError as full:  # the machine has no room for another thread
            log.warning("%s %s: %s", self._name, key, full)
            with self._change:
                self._busy.discard(key)
            return False
        return True

    @property
    def busy(self) -> set[Hashable]:
        """What is being done."""
        with self._change:
            return set(self._busy)

    def wait(self, seconds: float) -> bool:
        """Wait until all has ended; whether it has."""
        with self._change:
            return self._change.wait_for(lambda: not self._busy, seconds)

    def _work(self, key: Hashable, work: Callable[[], None]) -> None:
        try:
            work()
        except Unavailable as gone:
            log.warning("%s: %s", threading.current_thread().name, gone)
        except Stale as other:  # somebody was faster: it is read again, and decided again
            metrics.STALE.inc()
            log.info("%s: %s", threading.current_thread().name, other)
        except Exception as error:  # whatever it was, the next sweep tries again
            metrics.WORK_FAILURES.inc()
            failed(log, error, "%s failed", threading.current_thread().name)
        finally:
            with self._change:
                self._busy.discard(key)
                self._change.notify_all()
            self._wake()
