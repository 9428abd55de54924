"""The report of a rollout, in the form of Airship, and every node by its state, also those that were not started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodepool_ocb.rollout.groups import failed
from nodepool_ocb.rollout.records import (
    LOST,
    REASONS,
    GroupRecord,
    GroupState,
    NodeState,
    Rollout,
    RolloutState,
)
from nodepool_ocb.rollout.strategy import commits_nothing

#: The order in which nodes are named: failures first.
ORDER = (
    NodeState.FAILURE,
    NodeState.UNKNOWN,
    NodeState.NOT_STARTED,
    NodeState.SENDING,
    NodeState.SENT,
    NodeState.PREPARED,
    NodeState.SUCCESS,
)


#: Of a phase that commits nothing, before and after its turn.
SKIPPED: Final = "skipped: no role is in this phase"


NAMES_BYTES: Final = 1000  # of one line with names of nodes


def logged(rollout: Rollout) -> Iterator[str]:
    """The report line by line, for a log: a node that is lost has a line of its own, the names of others share lines."""
    yield from _groups(rollout)
    for state in ORDER:
        named = [name for name, progress in rollout.nodes.items() if progress.state is state]
        if state in LOST:
            yield from (f"{state}: {name}: {rollout.nodes[name].reason}" for name in named)
            continue
        many, line = f"{state} ({len(named)}):", ""
        for name in named:
            if len(line) > NAMES_BYTES:
                yield f"{many}{line}"
                line = ""
            line += f" {name}"
        if line:
            yield f"{many}{line}"


def report(rollout: Rollout) -> str:
    """Groups in the order of their turns, phase by phase; the end; then the nodes."""
    return "\n".join([*_groups(rollout), "", *_nodes(rollout)])


def _groups(rollout: Rollout) -> Iterator[str]:
    phases = [phase.name for phase in rollout.head.strategy.phases]
    last = len(rollout.groups) + 1
    ordered = sorted(rollout.groups.items(), key=lambda item: item[1].turn or last)
    width = max((len(f"{phase} {name}") for name in rollout.groups for phase in phases), default=0) + 3
    yield "Start"
    yield "|"
    for position, (name, record) in enumerate(ordered):
        if position:
            yield "V"
        for phase, words in zip(phases, outcomes(rollout, record), strict=True):
            yield f"| {f'{phase} {name}':<{width}}<{words}>"
    yield "|"
    yield finish(rollout)


def outcomes(rollout: Rollout, record: GroupRecord) -> list[str]:
    """A word for each phase of a group: SUCCESS, FAILED with the reason, or its activity.

    A phase that commits nothing is SKIPPED, unless the group failed in it.
    """
    phases = rollout.head.strategy.phases
    words = _outcomes(rollout, record)
    return [
        SKIPPED if commits_nothing(phases, position) and phases[position].name != record.reason else word
        for position, word in enumerate(words)
    ]


def _outcomes(rollout: Rollout, record: GroupRecord) -> list[str]:
    phases = [phase.name for phase in rollout.head.strategy.phases]
    match record.state:
        case GroupState.SUCCESS:
            return ["SUCCESS"] * len(phases)
        case GroupState.FAILED if record.reason in REASONS:
            words = f"FAILED, due to {record.reason}" if record.reason == REASONS[0] else f"FAILED, {record.reason}"
            done = record.phase if record.attempt and record.reason == REASONS[2] else 0
            return ["SUCCESS"] * done + [words] * (len(phases) - done)
        case GroupState.FAILED:
            at = phases.index(record.reason or phases[0])
            accepted = f", accepted: {record.accepted}" if record.accepted else ""
            later = [f"FAILED, due to {record.reason} failure{accepted}"] * (len(phases) - at - 1)
            return ["SUCCESS"] * at + [f"FAILED{accepted}", *later]
        case GroupState.NOT_STARTED:
            return ["NOT STARTED"] * len(phases)
    now = "PAUSED" if record.state is GroupState.PAUSED else "RUNNING"
    return ["SUCCESS"] * record.phase + [now] + ["NOT STARTED"] * (len(phases) - record.phase - 1)


def finish(rollout: Rollout) -> str:
    """The line about the end of a rollout, in the words of Airship's design; or that it has not ended."""
    head = rollout.head
    flawed = any(record.state is GroupState.FAILED for record in rollout.groups.values())
    # nodes in no group are no failures of it
    meant = {node for members in rollout.members.values() for node in members}
    flawed = flawed or any(rollout.nodes[node].state is not NodeState.SUCCESS for node in meant)
    critical = any(record.group.critical and failed(record) for record in rollout.groups.values())
    match head.state:
        case RolloutState.SUCCESS:
            return f"Finish (success{' with some nodes/groups failed' if flawed else ''})"
        case RolloutState.FAILED:
            return f"Finish (failed{' due to critical group failed' if critical else f': {head.reason}'})"
        case RolloutState.CANCELLED:
            return f"Finish ({head.reason or 'cancelled'})"
    return f"Not finished ({head.state}{f': {head.reason}' if head.reason else ''})"


def _nodes(rollout: Rollout) -> Iterator[str]:
    for state in ORDER:
        named = [name for name, progress in rollout.nodes.items() if progress.state is state]
        if named:
            yield f"{state} ({len(named)}):"
        for name in named:
            reason = rollout.nodes[name].reason
            yield f"  {name}" + (f"  {reason}" if reason else "")
