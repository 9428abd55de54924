"""The next time at which a decision may change though nothing else does: a launcher sleeps until then, and never polls. Pure."""

from __future__ import annotations

import math


class Wakes:
    """Collects times; ``seconds`` is the wait until the first one after now."""

    def __init__(self, now: float) -> None:
        self._now, self._first = now, math.inf

    def passed(self, at: float) -> bool:
        """Whether the time has come; if not, it is noted."""
        if at <= self._now:
            return True
        self._first = min(self._first, at)
        return False

    def again(self) -> None:
        """Decide again at once, after these instructions."""
        self._first = self._now

    @property
    def seconds(self) -> float | None:
        """The wait; None: until something changes."""
        return None if math.isinf(self._first) else self._first - self._now
