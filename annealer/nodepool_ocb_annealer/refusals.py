"""Claims that are refused again and again: tried later and later, and told once.

Somebody else who was faster is the reason of a few, so those cost nothing. Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

FREE: Final = 4  # in a row: others were faster
FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 30.0
MOST_DOUBLINGS: Final = 10


class Refusals:
    """By node: how often in a row, and until when the node is left alone."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[int, float]] = {}
        self._told: dict[str, str] = {}

    def refused(self, fqdn: str, now: float) -> float:
        """Once more; gives the seconds until it may be tried again."""
        count = self._nodes.get(fqdn, (0, 0.0))[0] + 1
        wait = min(FIRST_SECONDS * 2.0 ** min(max(count - FREE, 0), MOST_DOUBLINGS), LONGEST_SECONDS)
        self._nodes[fqdn] = count, now + wait
        return wait

    def news(self, fqdn: str, reason: str) -> str | None:
        """The reason, where it is to be told: from the first that no other claim explains, and once while it stays the same."""
        if self._nodes.get(fqdn, (0, 0.0))[0] <= FREE or self._told.get(fqdn) == reason:
            return None
        self._told[fqdn] = reason
        return reason

    def until(self, fqdn: str, now: float) -> float | None:
        """When the node may be claimed again; None where it may be now."""
        count, when = self._nodes.get(fqdn, (0, 0.0))
        return when if count > FREE and when > now else None

    def well(self, fqdn: str) -> None:
        """It was claimed."""
        self._nodes.pop(fqdn, None)
        self._told.pop(fqdn, None)
