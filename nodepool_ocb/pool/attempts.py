"""The attempts of launches: back-off between them, and the number of the next one. Pure.

A failed launch leaves its record, without a machine, until the next attempt is due. So a successor knows the number.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nodepool_ocb.model.pool import PoolNodeState, launch_facts
from nodepool_ocb.pool.views import PoolNodeView

FIRST_BACKOFF = 5.0
LONGEST_BACKOFF = 600.0
FINAL_PARTIES = frozenset({"request"})  # no launch of the label can succeed there
BLAMELESS_PARTIES = frozenset({"host"})  # the launch counts against nothing


class LaunchTries(msgspec.Struct, frozen=True):
    """The failed launches for one need. ``failed``: those that count."""

    failed: int = 0
    next: int = 1  # the attempt of the next launch
    due: float = 0.0  # the time of the next launch
    final: bool = False
    reason: str = ""


def tries(nodes: Iterable[PoolNodeView]) -> LaunchTries:
    """The tries that nodes for one need show: those of FAILED nodes, and of nodes kept on HOLD after a failure."""
    found = LaunchTries()
    for node in sorted(nodes, key=lambda each: each.record.state_time):
        facts = launch_facts(node.record)
        if facts is None or node.record.state not in (PoolNodeState.FAILED, PoolNodeState.HOLD):
            continue
        counts = facts.party not in BLAMELESS_PARTIES
        failed = max(found.failed, facts.attempt if counts else facts.attempt - 1)
        found = LaunchTries(
            failed=failed,
            next=max(found.next, failed + 1),
            due=max(found.due, node.record.state_time + backoff(facts.attempt)),
            final=found.final or facts.party in FINAL_PARTIES,
            reason=node.record.reason or found.reason or "the launch failed",
        )
    return found


def backoff(attempt: int) -> float:
    """Seconds between the end of an attempt and the next one.

    >>> [backoff(attempt) for attempt in (1, 2, 3, 20)]
    [5.0, 10.0, 20.0, 600.0]
    """
    return min(FIRST_BACKOFF * 2.0 ** min(attempt - 1, 30), LONGEST_BACKOFF)
