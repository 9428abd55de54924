"""Repeated refusals: tried again after growing pauses, and logged once.

A faster annealer is the reason of a few refusals, so these cost nothing; old refusals do not count.
Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

FREE: Final = 4  # claims in a row: others were faster
FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 30.0
MOST_DOUBLINGS: Final = 10
IN_A_ROW_SECONDS: Final = 60.0  # from when it may be tried again to its next refusal


class Refusals:
    """By node or other key: the number of refusals in a row, and the end of the pause.

    After the first ``free`` it is tried again after ``first_seconds``, then each time after twice as long; the first
    ``quiet`` are not logged.
    """

    def __init__(self, free: int = FREE, first_seconds: float = FIRST_SECONDS, quiet: int = FREE) -> None:
        self._free, self._first_seconds, self._quiet = free, first_seconds, quiet
        self._counts: dict[str, tuple[int, float]] = {}
        self._logged: dict[str, str] = {}

    def refused(self, what: str, now: float) -> float:
        """Once more; gives the seconds until it may be tried again."""
        count, until = self._counts.get(what, (0, now))
        if now - until >= IN_A_ROW_SECONDS:
            self.well(what)
            count = 0
        doublings = min(max(count + 1 - self._free, 0), MOST_DOUBLINGS)
        wait = min(self._first_seconds * 2.0**doublings, LONGEST_SECONDS)
        self._counts[what] = count + 1, now + wait
        return wait

    def news(self, what: str, reason: str) -> str | None:
        """The reason, where it is to be logged: once while it stays the same, and not for the first ``quiet`` refusals."""
        if self._counts.get(what, (0, 0.0))[0] <= self._quiet or self._logged.get(what) == reason:
            return None
        self._logged[what] = reason
        return reason

    def until(self, what: str, now: float) -> float | None:
        """When it may be tried again; None where it may be now."""
        count, when = self._counts.get(what, (0, 0.0))
        return when if count > self._free and when > now else None

    def well(self, what: str) -> None:
        """Forget the refusals of a key: it was not refused, has nothing to try, or its refusal is old."""
        self._counts.pop(what, None)
        self._logged.pop(what, None)
