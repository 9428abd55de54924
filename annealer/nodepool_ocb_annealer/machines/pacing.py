"""The pace of first logins: an annealer that starts beside thousands of machines does not log in to all of them at once.

A login costs a machine some twenty times the CPU of a later probe over the same connection, and all annealers may start
together after a power cut. Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

A_SECOND: Final = 40.0  # first logins of one annealer
BURST: Final = 8  # at once, if none was due for a while


class FirstLogins:
    """The time at which each machine may be asked for the first time; later probes keep their own schedule."""

    def __init__(self, a_second: float = A_SECOND, burst: int = BURST) -> None:
        self._gap, self._burst = 1.0 / a_second, burst
        self._times: dict[str, float] = {}
        self._next = float("-inf")

    def wait_seconds(self, fqdn: str, now: float) -> float:
        """Seconds until the machine may be asked; 0 from its time on.

        >>> pace = FirstLogins(a_second=1.0, burst=1)
        >>> [pace.wait_seconds(name, 10.0) for name in ("n1", "n2", "n3", "n2")], pace.wait_seconds("n2", 11.0)
        ([0.0, 1.0, 2.0, 1.0], 0.0)
        """
        when = self._times.get(fqdn)
        if when is None:
            self._next = max(self._next, now - (self._burst - 1) * self._gap)
            when = self._times[fqdn] = max(self._next, now)
            self._next += self._gap
        return max(0.0, when - now)

    def forget(self, fqdn: str) -> None:
        """The node is gone."""
        self._times.pop(fqdn, None)
