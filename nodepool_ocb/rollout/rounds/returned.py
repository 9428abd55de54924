"""The results of nodes that are in flight or unknown, from the states of their noderoles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodepool_ocb.rollout import groups
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.records import (
    IN_FLIGHT,
    Decision,
    GroupState,
    NodeState,
    Progress,
    Rollout,
    RolloutState,
    brief,
)
from nodepool_ocb.rollout.states.members import MemberEvent, member_after, put_back

NS = NodeState


def decide(rollout: Rollout, seen: Mapping[str, Seen], now: float) -> list[Decision]:
    """The new states of the nodes that are seen, and of those that ran out of time."""
    back = recalled(rollout)
    late = _late(rollout, now)
    found = []
    for name, progress in rollout.nodes.items():
        if progress.state not in IN_FLIGHT and progress.state is not NS.UNKNOWN:
            continue
        there = seen.get(name)
        after = _after(rollout, progress, there, back(progress), now) if there is not None else None
        if after is None and progress.group in late and _at_work_for(rollout, progress):
            begun = rollout.groups[progress.group].begun if progress.group else 0
            after = member_after(progress, MemberEvent.TIME_OUT, now, late=begun, reason=late[progress.group])
        if after is not None:
            found.append(Decision(name, after, _message(after)))
    return found


def recalled(rollout: Rollout) -> Callable[[Progress], bool]:
    """Whether a node in flight is to be taken back, unless it has begun: its rollout is cancelled, or its group is lost."""
    if rollout.head.state is RolloutState.CANCELLING:
        return lambda _: True
    lost = (
        {name for name in rollout.groups if groups.lost(rollout, name)} if rollout.head.strategy.stop_early else set()
    )
    return lambda progress: progress.group in lost


def _late(rollout: Rollout, now: float) -> dict[str | None, str]:
    """Groups with a phase that has run out of time, each with the reason."""
    phases = rollout.head.strategy.phases
    return {
        name: f"{phases[record.phase].name} of group {name} ran out of time"
        for name, record in rollout.groups.items()
        if record.state is GroupState.RUNNING and groups.clock(rollout.head, now) >= groups.deadline(phases, record)
    }


def _at_work_for(rollout: Rollout, progress: Progress) -> bool:
    """Whether its group is still in the phase for which the node was sent."""
    group = rollout.groups[progress.group] if progress.group else None
    in_phase = group is not None and group.state is GroupState.RUNNING and group.phase == progress.passed
    return in_phase and progress.state in IN_FLIGHT


def _after(rollout: Rollout, progress: Progress, there: Seen, back: bool, now: float) -> Progress | None:
    """The new progress, from the noderoles that are seen; None if it does not change."""
    if progress.state is NS.UNKNOWN:
        group = rollout.groups[progress.group] if progress.group else None
        if group is not None and groups.out_of_time(group, progress):
            return None  # its group has not decided yet; a repeated decision must find the same
    if there.gone:
        return _failed(progress, there, "the node does not exist any more", now)
    if _lost(progress, there, back):
        return _failed(progress, there, there.reason or "a noderole is in ERROR", now)
    if there.done:
        passed = progress.passed + 1
        last = passed == len(rollout.head.strategy.phases)
        event = MemberEvent.FINISH if last else MemberEvent.PASS
        return member_after(progress, event, now, passed=passed, reason=None)
    if progress.state is NS.UNKNOWN:
        why = "; ".join(filter(None, [progress.reason or "ran out of time", there.reason if there.unread else ""]))
        return _failed(progress, there, why, now) if there.at_rest else None
    if back and there.at_rest and there.unread:
        return _failed(progress, there, there.reason, now)
    if back and there.at_rest:
        return put_back(progress, MemberEvent.RECALL, now, reason="taken back before it was done")
    if progress.state is NS.SENDING:
        sent = not (there.proposed or there.outdated or there.lost or there.unread)
        return member_after(progress, MemberEvent.SENT, now) if sent and not back else None
    if there.unread:
        return None  # a noderole at rest may go on when its record can be read
    if there.proposed and there.at_rest:
        return _failed(progress, there, "its noderoles were proposed again by hand", now)
    if there.outdated and there.at_rest:
        return _failed(progress, there, "its requested rerun was taken back by hand", now)
    return None


def _lost(progress: Progress, there: Seen, back: bool) -> bool:
    """Whether the phase has failed; not while it is about to be retried, and stands as it did when it failed before."""
    if progress.state is not NS.SENDING or back:
        return there.lost
    return not progress.noted(there.errors) or (there.stuck > 0 and progress.attempt == 1)


def _failed(progress: Progress, there: Seen, reason: str, now: float) -> Progress:
    return member_after(progress, MemberEvent.FAIL, now, reason=brief(reason)).noting(there.errors)


def _message(progress: Progress) -> str:
    return f"{progress.state}: {progress.reason}" if progress.reason else str(progress.state)
