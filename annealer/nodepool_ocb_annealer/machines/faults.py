"""Faults of this host: for how long this annealer leaves a node, or all machines, to others.

A node that it failed at is left alone for a while that doubles with each fault. Where it fails at one node after another
and at none with success, it claims nothing for a while, and then one node at a time until it can work again: what fails
at once leaves its slots free, and would draw in all the work that there is. One node alone never stops it, for a machine
that lies may provoke such a fault. Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 60.0
MOST_DOUBLINGS: Final = 10
SUSPECT_NODES: Final = 2  # failed at in a row: then it is not the node


class Faults:
    """What went wrong lately, and until when that counts."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[int, float]] = {}  # faults in a row, and until when the node is left alone
        self._row: list[str] = []  # the nodes failed at since something went well
        self._until = 0.0
        self._reason = ""  # of the newest fault

    def unreached(self, fqdn: str, now: float) -> None:
        """A machine did not answer, which may be its own fault or this host's."""
        count = self._nodes.get(fqdn, (0, 0.0))[0] + 1
        self._nodes[fqdn] = count, now + _pause(count)

    def fault(self, fqdn: str, now: float, reason: str) -> None:
        """This host failed at a node."""
        self.unreached(fqdn, now)
        self._reason = reason
        if fqdn not in self._row:
            self._row.append(fqdn)
        if self.troubled:
            self._until = now + _pause(len(self._row))

    def well(self, fqdn: str) -> None:
        """A run on a node came to an end that is known."""
        self._nodes.pop(fqdn, None)
        self._row.clear()
        self._until = 0.0

    @property
    def troubled(self) -> bool:
        """Whether it fails at one node after another: claim one at a time."""
        return len(self._row) >= SUSPECT_NODES

    @property
    def trouble(self) -> str | None:
        """The same in a sentence; None where it works."""
        return f"this host fails at one machine after another: {self._reason}" if self.troubled else None

    def until(self, fqdn: str, now: float) -> float | None:
        """When a node may be claimed again; None where it may be now."""
        when = max(self._until, self._nodes.get(fqdn, (0, 0.0))[1])
        return when if when > now else None


def _pause(count: int) -> float:
    return min(FIRST_SECONDS * 2.0 ** min(count - 1, MOST_DOUBLINGS), LONGEST_SECONDS)
