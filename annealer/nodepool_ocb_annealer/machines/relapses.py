"""Machines that answer probes and that runs find dead, again and again: they are asked after growing pauses.

A probe sees less of a machine than a run does. If probe and run disagree, each turn sets the machine's noderoles
back, so the pause before the next probe doubles, to a limit. The pause is forgotten when the machine stays alive, when
another step than a run's fails, or with another way to it. Pure; times are those of the records.
"""

from __future__ import annotations

from typing import Final

import msgspec

from nodepool_ocb.model.records import Node

SOON_SECONDS: Final = 120.0  # a death so soon after a probe made the machine alive is a relapse
MOST_DOUBLINGS: Final = 7  # of ``annealer.dead_probe_seconds``: 11 minutes where that is 5 s


class _Past(msgspec.Struct):
    way: tuple[object, ...]
    revived: float
    died: float | None = None  # when it did, soon after; None since it was made alive
    relapses: int = 0


class Relapses:
    """The later fate of the machines that this annealer made alive."""

    def __init__(self) -> None:
        self._past: dict[str, _Past] = {}

    def revived(self, fqdn: str, node: Node, now: float) -> None:
        """A probe makes it alive."""
        past = self._past.get(fqdn)
        relapses = past.relapses if past is not None and past.way == _way(node) else 0
        self._past[fqdn] = _Past(_way(node), now, relapses=relapses)

    def forget(self, fqdn: str) -> None:
        """The former state does not count any more."""
        self._past.pop(fqdn, None)

    def wait_seconds(self, fqdn: str, node: Node, now: float, dead_probe_seconds: float) -> float:
        """The seconds until the machine is asked again."""
        past = self._past.get(fqdn)
        if past is None:
            return 0.0
        if past.way != _way(node) or (node.alive and now - past.revived > SOON_SECONDS):
            self.forget(fqdn)
            return 0.0
        if node.alive or node.since < past.revived:  # we still see the record of before
            return 0.0
        lived = node.since - past.revived if past.died is None else 0.0  # a later write of it is no other death
        if not (node.reason or "").startswith("run:") or lived > SOON_SECONDS:
            self.forget(fqdn)
            return 0.0
        if past.died is None:
            past.died = node.since
            past.relapses += 1
        if past.relapses < 2:  # any machine may do it once
            return 0.0
        pause = dead_probe_seconds * 2.0 ** min(past.relapses - 1, MOST_DOUBLINGS)
        return max(0.0, past.died + pause - now)


def _way(node: Node) -> tuple[object, ...]:
    return node.addresses, node.user, node.epoch_base
