"""Putting failed members back after a request (``rollout.commands.retry``): the nodes, then their groups."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nodepool_ocb.rollout.groups import failed, passed_over, waiting_again
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.records import LOST, Decision, NodeState, Progress, Rollout
from nodepool_ocb.rollout.states.groups import GroupEvent
from nodepool_ocb.rollout.states.members import MemberEvent, put_back


def decide(rollout: Rollout, seen: Mapping[str, Seen], now: float) -> list[Decision]:
    """The nodes first, all of them; then the groups; then the end of the request: so the records show the progress."""
    if not rollout.head.retrying:
        return []
    return _nodes(rollout, seen, now) or _groups(rollout, now) or [_done(rollout)]


def _nodes(rollout: Rollout, seen: Mapping[str, Seen], now: float) -> list[Decision]:
    return [
        Decision(
            name,
            _put_back(progress, seen.get(name), now),
            f"put back for attempt {progress.attempt + 1}: {progress.reason}",
        )
        for name, progress in rollout.nodes.items()
        if progress.state is NodeState.FAILURE
    ]


def _put_back(progress: Progress, there: Seen | None, now: float) -> Progress:
    """The noderoles in ERROR now are noted as old, also those that failed after the node was given up."""
    back = put_back(progress, MemberEvent.RETRY, now, attempt=progress.attempt + 1, reason=None)
    return back if there is None else back.noting(there.errors)


def _groups(rollout: Rollout, now: float) -> list[Decision]:
    """Groups that failed, and groups that count as successful although a failed member of them is put back."""
    back = {
        name
        for name, progress in rollout.nodes.items()
        if progress.attempt > 1 and progress.state in (NodeState.NOT_STARTED, NodeState.PREPARED)
    }
    return [
        Decision(name, waiting_again(record, GroupEvent.RETRY, now), "put back, to begin once more")
        for name, record in rollout.groups.items()
        if failed(record) or (passed_over(record) and not back.isdisjoint(rollout.members[name]))
    ]


def _done(rollout: Rollout) -> Decision:
    unknown = sum(progress.state in LOST for progress in rollout.nodes.values())
    return Decision(
        "", replace(rollout.head, retrying=False, breaker_offset=unknown), "the failed nodes and groups are put back"
    )
