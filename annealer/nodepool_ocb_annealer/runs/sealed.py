"""Noderoles whose secrets cannot be opened here: left alone for a while that doubles, while others may try.

What this host lacks is its own trouble, for as long as it was met lately. What nobody can open is none of anybody's: its
noderole waits for all. Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

from nodepool_ocb_annealer.refusals import Refusals

FIRST_SECONDS: Final = 1.0
MEMORY_SECONDS: Final = 60.0  # longer than the longest pause


class SealedWork:
    """What was set aside, and why this host is to blame, if it is."""

    def __init__(self) -> None:
        self._pauses = Refusals(free=0, first_seconds=FIRST_SECONDS, quiet=0)
        self._own: dict[str, tuple[str, float]] = {}  # noderole → what this host lacks, and when that was met

    def aside(self, noderole: str, reason: str, now: float, *, own: bool) -> float:
        """It cannot be opened; gives the seconds until it may be tried again."""
        self._own.pop(noderole, None)
        if own:
            self._own[noderole] = reason, now
        return self._pauses.refused(noderole, now)

    def news(self, noderole: str, reason: str) -> bool:
        """Whether the reason is to be logged."""
        return self._pauses.news(noderole, reason) is not None

    def until(self, noderole: str, now: float) -> float | None:
        """When it may be tried again; None where it may be now."""
        return self._pauses.until(noderole, now)

    def well(self, noderole: str) -> None:
        """It was opened, or needs it no more."""
        self._pauses.well(noderole)
        self._own.pop(noderole, None)

    def trouble(self, now: float) -> str | None:
        """What this host lacks, in a sentence; None where nothing was missing lately."""
        lately = [reason for reason, met in self._own.values() if now - met < MEMORY_SECONDS]
        return f"this host cannot open secrets: {lately[0]}" if lately else None
