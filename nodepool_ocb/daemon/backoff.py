"""The times at which work or a log message may be repeated: work that fails at once must not spin. For one thread."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable
from typing import Final

from nodepool_ocb.daemon.workers import WorkerPool

CALM_SECONDS: Final = 1.0  # before something is begun again
LONGEST_SECONDS: Final = 300.0  # before something is begun again that did not help many times


class Backoff:
    """All times are monotonic. Old starts that do not matter any more are forgotten."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, tuple[float, float]] = {}  # not again before, and how long that was
        self._said: dict[Hashable, float] = {}  # not to be said again before
        self._due: dict[Hashable, float] = {}  # when it is due again

    # -- begun work --

    def start(
        self, crew: WorkerPool, key: Hashable, work: Callable[[], None], longest_seconds: float = CALM_SECONDS
    ) -> bool:
        """Begin a piece of work, unless it began a moment ago or no worker is free; whether it began."""
        if self.left(key) < float("inf") or not crew.start(key, work):
            return False
        self.begin(key, longest_seconds)
        return True

    def left(self, key: Hashable) -> float:
        """The seconds until something may be begun again; infinite where nothing is in its way."""
        left = self._begun.get(key, (0.0, 0.0))[0] - time.monotonic()
        return left if left > 0.0 else float("inf")

    def begin(self, key: Hashable, longest_seconds: float = CALM_SECONDS) -> None:
        """Note that the work was begun. If it is begun again within a while, the next pause doubles, to ``longest_seconds``."""
        now = time.monotonic()
        self._begun = {other: each for other, each in self._begun.items() if each[0] + LONGEST_SECONDS > now}
        seconds = min(self._begun[key][1] * 2, longest_seconds) if key in self._begun else CALM_SECONDS
        self._begun[key] = now + seconds, seconds

    # -- complaints --

    def may_say(self, what: Hashable, every_seconds: float) -> bool:
        """Whether it is time to complain about the same thing again."""
        now = time.monotonic()
        if self._said.get(what, 0.0) > now:
            return False
        self._said = {other: until for other, until in self._said.items() if until > now}
        self._said[what] = now + every_seconds
        return True

    # -- timers without an event --

    def comes(self, what: Hashable, every_seconds: float, keep: Callable[[], bool] = lambda: True) -> bool:
        """Whether a timer is due, and could be kept; then the next is made."""
        now = time.monotonic()
        if self._due.get(what, 0.0) > now or not keep():
            return False
        self._due[what] = now + every_seconds * random.uniform(0.9, 1.1)
        return True

    def hurry(self) -> None:
        """All of these are due now: the next times may be others."""
        self._due.clear()

    def timers(self) -> list[float]:
        """The seconds until each is due; due work that did not begin waits for a free worker."""
        now = time.monotonic()
        return [at - now for at in self._due.values() if at > now]
