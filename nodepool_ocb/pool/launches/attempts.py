"""The attempts of launches: back-off between them, and the number of the next one. Pure.

A failed launch leaves its record until the next attempt is due, so a successor knows the number. Its worker deletes the machine
first; then the record is *bare*. A quota and a fault of this host end a launch as ABORTED, which counts as no attempt.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nodepool_ocb.model.pool import PoolNodeState, launch_facts
from nodepool_ocb.pool.launches.refusals import quota_refused
from nodepool_ocb.pool.views import PoolNodeView

FIRST_BACKOFF = 5.0
LONGEST_BACKOFF = 600.0
BARE_SECONDS = 600.0  # the pool declines if the machine of a failed launch still exists then
ABORTED_SECONDS = 10.0  # after a launch was aborted, the next one waits
REQUEST_PARTY = "request"  # no launch of the label can succeed there


class LaunchTries(msgspec.Struct, frozen=True):
    """The failed launches for one need. ``failed``: those that count."""

    failed: int = 0
    due: float = 0.0  # the time of the next launch
    final: bool = False
    reason: str = ""

    @property
    def next(self) -> int:
        """The attempt of the next launch."""
        return self.failed + 1


def tries(nodes: Iterable[PoolNodeView]) -> LaunchTries:
    """The tries that nodes for one need show: FAILED and ABORTED ones, and those kept on HOLD after a failure."""
    found = LaunchTries()
    for node in sorted((each for each in nodes if ended(each)), key=lambda each: each.record.state_time):
        record, facts = node.record, launch_facts(node.record)
        attempt = facts.attempt if facts is not None else 1
        if record.state is PoolNodeState.ABORTED:
            wait = 0.0 if quota_refused(node) else ABORTED_SECONDS  # the back-off of the provider is the wait for room
            failed, due = max(found.failed, attempt - 1), record.state_time + wait
        else:
            failed, due = max(found.failed, attempt), record.state_time + backoff(attempt)
        if not bare(node) and record.state is not PoolNodeState.HOLD:
            due = max(due, record.state_time + BARE_SECONDS)
        found = LaunchTries(
            failed=failed,
            due=max(found.due, due),
            final=found.final or (facts is not None and facts.party == REQUEST_PARTY),
            reason=record.reason or found.reason or "the launch failed",
        )
    return found


def ended(node: PoolNodeView) -> bool:
    """Whether the node shows a launch that ended without a ready node."""
    if node.record.state is PoolNodeState.HOLD:  # kept for a person after its roles failed, or held by one
        facts = launch_facts(node.record)
        return facts is not None and facts.party is not None
    return node.record.state in (PoolNodeState.FAILED, PoolNodeState.ABORTED)


def bare(node: PoolNodeView) -> bool:
    """Whether no machine of a launch that ended exists any more."""
    facts = launch_facts(node.record)
    return node.record.external_id is None and (facts is None or not facts.key)


def backoff(attempt: int) -> float:
    """Seconds between the end of an attempt and the next one.

    >>> [backoff(attempt) for attempt in (1, 2, 3, 20)]
    [5.0, 10.0, 20.0, 600.0]
    """
    return min(FIRST_BACKOFF * 2.0 ** min(attempt - 1, 30), LONGEST_BACKOFF)
