"""Faults of this host: for how long this annealer leaves a node, or all machines, to others.

A node that it failed at is left alone for a while that doubles with each fault. If it fails at one node after another
without a success, it claims nothing for a while, and then one node at a time until it can work again. Otherwise runs that fail
at once would leave its slots free, and draw in all the work. One node alone never stops it, because a machine
that lies may provoke such a fault. An exception of a jig may come from a record, so a fault names its cause: the same role at
many nodes counts as one fault. Pure: times are seconds on the monotonic clock.
"""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 60.0
MOST_DOUBLINGS: Final = 10
SUSPECT_NODES: Final = 2  # failed at in a row: then it is not the node


class Faults:
    """The recent faults, with the time until which they count."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[int, float]] = {}  # faults in a row, and until when the node is left alone
        self._row: dict[str, str] = {}  # the nodes failed at since something went well → the role at fault, or the node
        self._until = 0.0
        self._reason = ""  # of the newest fault

    def unreached(self, fqdn: str, now: float) -> None:
        """A machine did not answer, which may be its own fault or this host's."""
        count = self._nodes.get(fqdn, (0, 0.0))[0] + 1
        self._nodes[fqdn] = count, now + _pause(count)

    def fault(self, fqdn: str, now: float, reason: str, role: str | None = None) -> None:
        """This host failed at a node. ``role``: at a run of it, in a way that its record may have caused."""
        self.unreached(fqdn, now)
        self._reason = reason
        if self._row.get(fqdn) != fqdn:  # a fault that no record can cause says more
            self._row[fqdn] = role or fqdn
        if self.troubled:
            self._until = now + _pause(len(self._row))

    def well(self, fqdn: str) -> None:
        """A run on a node came to an end that is known."""
        self._nodes.pop(fqdn, None)
        self._row.clear()
        self._until = 0.0

    @property
    def troubled(self) -> bool:
        """Whether it fails at one node after another, and not at one role alone: claim one at a time."""
        return len(set(self._row.values())) >= SUSPECT_NODES

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
