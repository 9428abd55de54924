"""The obstacles of a node of a rollout, and of a whole rollout, for people. Pure.

They come from the functions by which the engine decides (``groups.awaited``, ``sending.held_back``, ``step.step``). So they
are the obstacles that keep a driver from going on.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from nodepool_ocb.rollout import groups
from nodepool_ocb.rollout.records import IN_FLIGHT, LOST, GroupState, NodeState, Rollout, RolloutState
from nodepool_ocb.rollout.rounds import sending
from nodepool_ocb.rollout.step import step


class WaitKind(StrEnum):
    """The way to end the wait."""

    WAITING = "waiting"  # nothing: its turn comes
    PAUSED = "paused"  # promote the group
    LOST = "lost"  # retry, or accept, once the rollout is over
    LEFT_OUT = "left out"  # resume or retry


class Wait(msgspec.Struct, frozen=True):
    """The reason why a rollout does not commit the PROPOSED noderoles of a node now."""

    kind: WaitKind
    group: str
    since: float
    text: str


def wait(rollout: Rollout, node: str) -> Wait | None:
    """The wait of a node with PROPOSED noderoles; None if the rollout does not cover it, or has passed all phases with it."""
    progress = rollout.nodes.get(node)
    name = _group(rollout, node)
    if progress is None or name is None or progress.state is NodeState.SUCCESS:
        return None
    record = rollout.groups[name]
    if progress.state in LOST:
        how = "failed" if progress.state is NodeState.FAILURE else "is unknown"
        text = f"the node {how} in group {progress.group}: {progress.reason}"
        return Wait(WaitKind.LOST, progress.group or name, progress.since, text)
    if record.state in (GroupState.FAILED, GroupState.SUCCESS):
        return Wait(WaitKind.LEFT_OUT, name, record.since, f"group {name} {record.state}: {record.detail}")
    if rollout.over or rollout.head.state is RolloutState.CANCELLING:
        text = f"the rollout is {rollout.head.state}: {rollout.head.reason}"
        return Wait(WaitKind.LEFT_OUT, name, rollout.head.since, text)
    if record.state is GroupState.PAUSED:
        return Wait(WaitKind.PAUSED, name, record.since, f"group {name} {record.detail or 'pauses'}")
    text = _not_begun(rollout, name) if record.state is GroupState.NOT_STARTED else _at_work(rollout, name, node)
    return Wait(WaitKind.WAITING, name, record.since, text)


def for_somebody(rollout: Rollout) -> tuple[str, ...]:
    """The groups that must be promoted before anything happens again; empty while something may happen without that."""
    paused = tuple(name for name, record in rollout.groups.items() if record.state is GroupState.PAUSED)
    working = any(record.state is GroupState.RUNNING for record in rollout.groups.values())
    flying = any(progress.state in IN_FLIGHT for progress in rollout.nodes.values())
    if rollout.over or not paused or working or flying:
        return ()
    return () if rollout.head.aside or step(rollout, {}, rollout.head.since).decisions else paused


def _group(rollout: Rollout, node: str) -> str | None:
    """The group that has a node now, or that will have it first; the first of all where none will."""
    own = [name for name, members in rollout.members.items() if node in members]
    for state in (GroupState.RUNNING, GroupState.PAUSED, GroupState.NOT_STARTED):
        for name in own:
            if rollout.groups[name].state is state:
                return name
    return own[0] if own else None


def _not_begun(rollout: Rollout, name: str) -> str:
    above = groups.awaited(rollout.groups[name].group, rollout.groups)
    if above:
        waited = ", ".join(f"{each}, which is {_stands(rollout, each)}" for each in above)
        return f"group {name} waits for group {waited}"
    busy = [each for each, record in rollout.groups.items() if record.state in (GroupState.RUNNING, GroupState.PAUSED)]
    if busy:
        most = rollout.head.strategy.parallel_groups
        turn = "one group is" if most == 1 else f"{most} groups are"
        return f"group {name} waits for its turn: {turn} at work at once, now {', '.join(busy)}"
    return f"group {name} begins as soon as an annealer drives the rollout"


def _at_work(rollout: Rollout, name: str, node: str) -> str:
    record, progress = rollout.groups[name], rollout.nodes[node]
    here = f"group {name} is in phase {rollout.head.strategy.phases[record.phase].name}"
    if progress.state in IN_FLIGHT:
        return f"the node is at work for phase {rollout.head.strategy.phases[progress.passed].name} of group {progress.group}"
    if node not in groups.scope(rollout, name):
        return f"{here} of batch {record.batch + 1}; the node comes in a later batch"
    if progress.passed > record.phase:
        return f"{here}, which the node has passed; the next begins when the others have"
    full = sending.held_back(rollout, name, node)
    return f"{here}, and {full}" if full else f"{here}, and sends the node as soon as an annealer drives the rollout"


def _stands(rollout: Rollout, name: str) -> str:
    """A group's state, with its phase while it is at work."""
    record = rollout.groups[name]
    at_work = record.state in (GroupState.RUNNING, GroupState.PAUSED)
    return f"{record.state} ({rollout.head.strategy.phases[record.phase].name})" if at_work else str(record.state)
