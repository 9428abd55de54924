"""What is to be done later, by name: at most one appointment each, the earliest wins."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TypeAlias

Matter: TypeAlias = tuple[str, str]  # what is to be done, and to whom: ("consider", "n1.example.com")


class Agenda:
    """Appointments on the monotonic clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Matter]] = []
        self._due: dict[Matter, float] = {}

    def at(self, when: float, matter: Matter) -> None:
        """Meet at ``when`` unless an earlier appointment for the matter stands."""
        if when < self._due.get(matter, float("inf")):
            self._due[matter] = when
            heapq.heappush(self._heap, (when, matter))

    def due(self, now: float) -> Iterator[Matter]:
        """Every matter whose time has come, once."""
        while self._heap and self._heap[0][0] <= now:
            when, matter = heapq.heappop(self._heap)
            if self._due.get(matter) == when:
                del self._due[matter]
                yield matter

    def seconds(self, now: float, at_most: float) -> float:
        """How long until the next appointment."""
        return max(0.0, min(at_most, self._heap[0][0] - now)) if self._heap else at_most
