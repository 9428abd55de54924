"""Noderoles with runs that cannot be prepared here, mostly for a secret: left alone for a while that doubles.

Others may try meanwhile, unless no host could open the secret: then the noderole waits for all. A record names the
secret, so neither is a fault of this host. Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

from nodepool_ocb_annealer.refusals import Refusals

FIRST_SECONDS: Final = 1.0


class DecryptBackoff:
    """The noderoles that were set aside."""

    def __init__(self) -> None:
        self._pauses = Refusals(free=0, first_seconds=FIRST_SECONDS, quiet=0)

    def aside(self, noderole: str, now: float) -> float:
        """Its run cannot be prepared; gives the seconds until it may be tried again."""
        return self._pauses.refused(noderole, now)

    def news(self, noderole: str, reason: str) -> bool:
        """Whether the reason is to be logged."""
        return self._pauses.news(noderole, reason) is not None

    def until(self, noderole: str, now: float) -> float | None:
        """When it may be tried again; None where it may be now."""
        return self._pauses.until(noderole, now)

    def well(self, noderole: str) -> None:
        """A run of it came to its end."""
        self._pauses.well(noderole)
