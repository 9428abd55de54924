"""The state of a group: the results of its batches, its nodes in flight, and whether its criteria are met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nodepool_ocb.rollout import criteria
from nodepool_ocb.rollout.criteria import Count
from nodepool_ocb.rollout.records import (
    IN_FLIGHT,
    LOST,
    GroupRecord,
    GroupState,
    NodeState,
    Progress,
    Rollout,
    RolloutRecord,
)
from nodepool_ocb.rollout.states.groups import GroupEvent, group_after
from nodepool_ocb.rollout.strategy import Group, Phase


def clock(head: RolloutRecord, now: float) -> float:
    """The rollout's own time: it stands still while its deployment is paused."""
    return min(now, now if head.aside_since is None else head.aside_since) - head.aside_seconds


def phase_begins(head: RolloutRecord, now: float) -> dict[str, float]:
    """The fields of a group with a phase that begins now."""
    return {"phase_since": now, "aside_before": max(now - clock(head, now), 0.0)}


def deadline(phases: Sequence[Phase], record: GroupRecord) -> float:
    """When the phase that a group is in runs out of time, by the rollout's own time."""
    return record.phase_since - record.aside_before + allowed_seconds(phases, record)


def allowed_seconds(phases: Sequence[Phase], record: GroupRecord) -> float:
    """How long the phase that a group is in may take."""
    phase = phases[record.phase]
    return record.group.timeouts.get(phase.name, phase.timeout_seconds)


def passed_over(record: GroupRecord) -> bool:
    """Whether it succeeded, or failed and a person has accepted that."""
    return record.state is GroupState.SUCCESS or (record.state is GroupState.FAILED and record.accepted is not None)


def awaited(group: Group, known: Mapping[str, GroupRecord]) -> tuple[str, ...]:
    """The groups that it depends on and that have not ended well yet: it begins when there are none."""
    return tuple(name for name in group.depends_on if not passed_over(known[name]))


def failed(record: GroupRecord) -> bool:
    return record.state is GroupState.FAILED and record.accepted is None


def scope(rollout: Rollout, name: str) -> tuple[str, ...]:
    """The members of the batches so far."""
    members = rollout.members[name]
    return members[: reach(rollout.groups[name], len(members))]


def reach(record: GroupRecord, members: int) -> int:
    batches = record.group.batches
    return batches[record.batch].of(members) if record.batch < len(batches) else members


class GroupCounts(msgspec.Struct, frozen=True):
    """The nodes of a group's batches so far that its phase is not done with."""

    own: int = 0  # in flight for it
    others: int = 0  # in flight for another group: they are waited for
    unsent: int = 0
    unknown: int = 0  # for which this phase ran out of time


def standing(rollout: Rollout, record: GroupRecord) -> GroupCounts:
    """How far a group is in its phase."""
    name = record.group.name
    members = rollout.members[name]
    own = others = unsent = unknown = 0
    for progress in map(rollout.nodes.__getitem__, members[: reach(record, len(members))]):
        if progress.passed > record.phase:
            continue
        if progress.state in IN_FLIGHT:
            own, others = own + (progress.group == name), others + (progress.group != name)
        elif progress.passed == record.phase:
            unknown += progress.group == name and out_of_time(record, progress)
            unsent += progress.state not in LOST
    return GroupCounts(own, others, unsent, unknown)


def counted(rollout: Rollout, nodes: Iterable[str], phase: int) -> Count:
    """The number of nodes that succeeded or failed in a phase, sent by any group."""
    members = successful = lost = 0
    for node in nodes:
        progress = rollout.nodes[node]
        members += 1
        if progress.state in LOST:
            lost += 1
        elif progress.passed > phase:
            successful += 1
    return Count(members, successful, lost)


def out_of_time(record: GroupRecord, progress: Progress) -> bool:
    """Whether a node is unknown by the phase in which its group is at work: the group must first decide the consequence."""
    here = record.state is GroupState.RUNNING and record.phase == progress.passed
    return here and progress.state is NodeState.UNKNOWN and progress.late == record.begun


def lost(rollout: Rollout, name: str) -> bool:
    """Whether a group at work is to send nothing further, since its criteria cannot be met any more (``stop_early``)."""
    record = rollout.groups[name]
    return record.state is GroupState.RUNNING and hopeless(rollout, record)


def hopeless(rollout: Rollout, record: GroupRecord) -> bool:
    """Whether a group is to stop early: its criteria cannot be met any more in the phase in which it is."""
    if not rollout.head.strategy.stop_early:
        return False
    count = counted(rollout, rollout.members[record.group.name], record.phase)
    return bool(criteria.hopeless(record.group.success_criteria, count))


def unmeetable(rollout: Rollout, name: str) -> bool:
    """Whether more nodes of a group have failed than its criteria bear."""
    members = rollout.members[name]
    criteria_of = rollout.groups[name].group.success_criteria
    return counted(rollout, members, 0).failed > criteria.bearable(criteria_of, len(members))


def judged(rollout: Rollout, record: GroupRecord) -> tuple[tuple[str, ...], Count]:
    """The criteria that are not met in a group's phase, and the numbers that say so."""
    members = rollout.members[record.group.name]
    wanted = record.group.success_criteria
    every = counted(rollout, members, record.phase)
    if in_last_batch(rollout, record) or hopeless(rollout, record):
        return criteria.unmet(wanted, every), every
    part = counted(rollout, members[: reach(record, len(members))], record.phase)
    return criteria.so_far(wanted, part, every), part


def in_last_batch(rollout: Rollout, record: GroupRecord) -> bool:
    members = len(rollout.members[record.group.name])
    return reach(record, members) == members


def waiting_again(record: GroupRecord, event: GroupEvent, now: float) -> GroupRecord:
    """A group that is to begin once more, by REOPEN or RETRY."""
    return group_after(
        record, event, now, phase=0, batch=0, promoted=0, turn=0, reason=None, detail=None, unmet=(),
        accepted=None,
    )  # fmt: skip
