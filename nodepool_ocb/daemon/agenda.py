"""What is to be done later: at most one appointment for each matter, the earliest wins.

A matter is any hashable value. A daemon says which there are with an Enum or frozen structs, and meets them by a table.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)


class Agenda(Generic[M]):
    """Appointments on the monotonic clock. For one thread.

    >>> agenda = Agenda[str](); agenda.at(2.0, "sweep"); agenda.at(1.0, "sweep")
    >>> agenda.seconds(0.5, at_most=60.0), list(agenda.due(3.0)), list(agenda.due(3.0))
    (0.5, ['sweep'], [])
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, M]] = []  # the number keeps the order of those that are due together
        self._numbers = count()
        self._due: dict[M, float] = {}

    def at(self, when: float, matter: M) -> None:
        """Meet at ``when`` unless an earlier appointment for the matter stands."""
        if when < self._due.get(matter, float("inf")):
            self._due[matter] = when
            heapq.heappush(self._heap, (when, next(self._numbers), matter))

    def due(self, now: float) -> Iterator[M]:
        """Every matter whose time has come, once."""
        while self._heap and self._heap[0][0] <= now:
            when, _, matter = heapq.heappop(self._heap)
            if self._due.get(matter) == when:
                del self._due[matter]
                yield matter

    def seconds(self, now: float, at_most: float) -> float:
        """How long until the next appointment."""
        return max(0.0, min(at_most, self._heap[0][0] - now)) if self._heap else at_most
