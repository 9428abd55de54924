"""Timers of a daemon: at most one for each key, and the earliest wins.

A key is any hashable value. A daemon declares its keys as an Enum or as frozen structs, and has a table of their handlers.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """Times are seconds of the monotonic clock. For one thread.

    >>> timers = Timers[str](); timers.at(2.0, "sweep"); timers.at(1.0, "sweep")
    >>> timers.seconds(0.5, at_most=60.0), list(timers.due(3.0)), list(timers.due(3.0))
    (0.5, ['sweep'], [])
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []  # the number keeps the order of timers with equal times
        self._numbers = count()
        self._due: dict[K, float] = {}

    def at(self, when: float, key: K) -> None:
        """Set a timer of ``key``, unless an earlier one is set."""
        if when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._heap, (when, next(self._numbers), key))

    def due(self, now: float) -> Iterator[K]:
        """Remove each timer that is due at ``now``, and give its key."""
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                yield key

    def seconds(self, now: float, at_most: float) -> float:
        """Seconds until the next timer, and ``at_most`` without one."""
        return max(0.0, min(at_most, self._heap[0][0] - now)) if self._heap else at_most
