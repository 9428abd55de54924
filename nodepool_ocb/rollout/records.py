"""A rollout as ZooKeeper holds it, and as one value.

Three kinds of znodes, each below 256 KiB for 1,000 groups and any number of nodes, in all their states::

    rollouts/<deployment>/<id>                  RolloutRecord: the rules, the names of the groups, how it stands
    rollouts/<deployment>/<id>/groups/<group>   GroupRecord: its definition, its members, how it stands
    rollouts/<deployment>/<id>/nodes/<part>     NodesRecord: nodes in their order, as many as fit

Members are decided once, when the rollout begins. A group's members are positions in the order of the rollout's nodes, written
as ranges ("0-12,15"): 200 groups of 5,000 nodes each take kilobytes.

The rollout's znode is created first, with an empty record; the record is written last. So a rollout with a record is whole,
and one with an empty record was never begun. ``step.step`` decides in rounds, each of which touches one kind of znode only. So
a round may be written in any number of transactions, in its order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import Count, Id, Moment, Times
from nodepool_ocb.model.records import Record
from nodepool_ocb.rollout.strategy import Group, Strategy

PART_BYTES: Final = 200 * 1024  # of nodes, when each is at its largest
REASON_BYTES: Final = 400  # of a reason, as JSON
ERRORS_KEPT: Final = 128  # of a node
MARK_BYTES: Final = 8
OTHER_BYTES: Final = 400  # of a node: keys, numbers, states, and the name of a group, which has at most 63 letters


class NodeState(StrEnum):
    """How a node fares in a rollout (seed 003; in flight and unknown are ours)."""

    NOT_STARTED = "not started"  # no phase of it is passed or under way
    SENDING = "sending"  # in flight: its noderoles are being committed, or retried
    SENT = "sent"  # in flight: they have been
    PREPARED = "prepared"  # it has passed a phase, and not the last
    SUCCESS = "success"  # it has passed the last phase
    FAILURE = "failure"  # a phase of it failed; it is sent again only if a person retries the rollout
    UNKNOWN = "unknown"  # its phase ran out of time, and a noderole of it may still be at work


class GroupState(StrEnum):
    """How a group fares."""

    NOT_STARTED = "not started"  # waits for groups that it depends on, or for its turn
    RUNNING = "running"  # at work in a phase
    PAUSED = "paused"  # after a batch, until a person promotes it
    SUCCESS = "success"  # its criteria were met in every phase
    FAILED = "failed"  # see its reason


class RolloutState(StrEnum):
    """How the whole fares."""

    RUNNING = "running"  # groups are sent as their turn comes
    STOPPING = "stopping"  # no further group begins; those at work finish
    CANCELLING = "cancelling"  # no further node is sent, and nodes that have not begun are taken back
    SUCCESS = "success"  # over: no critical group failed
    FAILED = "failed"  # over: a critical group failed, or the breaker tripped
    CANCELLED = "cancelled"  # over: a person cancelled it


IN_FLIGHT: Final = frozenset({NodeState.SENDING, NodeState.SENT})
LOST: Final = frozenset({NodeState.FAILURE, NodeState.UNKNOWN})
OVER: Final = frozenset({RolloutState.SUCCESS, RolloutState.FAILED, RolloutState.CANCELLED})

#: Reasons of a failed group; any other is the name of the phase in which it failed.
DEPENDENCY: Final = "dependency"  # a group that it depends on failed
STOPPED: Final = "stopped"  # the rollout was stopped before its turn came
CANCELLED: Final = "cancelled"  # the rollout was cancelled while it was at work, or before
REASONS: Final = (DEPENDENCY, STOPPED, CANCELLED)


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far one node has come."""

    state: NodeState = NodeState.NOT_STARTED
    passed: Times = 0  # phases; in flight it is at work in the one after these
    group: str | None = None  # for which it was sent last
    since: Moment = 0.0  # when the state changed last
    late: Times = 0  # the phase of its group that ran out of time with it last, as ``GroupRecord.begun`` counted it
    attempt: Times = 1  # +1 with each retry
    reason: str | None = None  # why it failed, is unknown, or was taken back
    errors: str = ""  # ``marks`` of the noderoles in ERROR when it failed last, or was put back
    errors_left_out: Times = 0  # how many more there were
    domains: tuple[str, ...] = ()  # "rack r1", "label zone:a": where the strategy limits nodes in flight
    again: Mapping[
        str, Count
    ] = {}  # the noderoles to run again: role → the epoch of the newest run at the start of the rollout

    def noting(self, errors: Mapping[str, int]) -> Progress:
        """The progress with these noderoles in ERROR: role → generation. Beyond the limit, the last by name are only counted."""
        left_out = max(len(errors) - ERRORS_KEPT, 0)
        return replace(self, errors=marks(errors)[: ERRORS_KEPT * MARK_BYTES], errors_left_out=left_out)

    def noted(self, errors: Mapping[str, int]) -> bool:
        """Whether all these were in ERROR already, in the same generation. Noderoles that were only counted are not known."""
        known = {self.errors[start : start + MARK_BYTES] for start in range(0, len(self.errors), MARK_BYTES)}
        return all(marks({role: generation}) in known for role, generation in errors.items())


def marks(errors: Mapping[str, int]) -> str:
    """Eight digits for each noderole in ERROR (role → generation), by role: a fraction of the size of the names.

    >>> marks({"os": 1, "app": 3})
    '77ea2498d0eccad8'
    """
    return "".join(f"{crc32(f'{role} {generation}'.encode()):08x}" for role, generation in sorted(errors.items()))


def brief(text: str) -> str:
    """A reason, cut to REASON_BYTES as JSON."""
    short = text[:REASON_BYTES]
    while (excess := len(msgspec.json.encode(short)) - 2 - REASON_BYTES) > 0:
        short = short[: -(excess // 6 + 1)]
    return short


class NodesRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``rollouts/<deployment>/<id>/nodes/<part>``: some of a rollout's nodes."""

    nodes: Mapping[str, Progress]  # FQDN → how far it has come


class GroupRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``rollouts/<deployment>/<id>/groups/<group>``."""

    group: Group  # as its strategy defines it, without the selectors
    members: str = ""  # positions among the rollout's nodes: "0-12,15"
    state: GroupState = GroupState.NOT_STARTED
    since: Moment = 0.0  # when the state changed last
    phase: Times = 0  # at work in this one, or ended in it; from 0
    batch: Times = 0  # the same
    phase_since: Moment = 0.0  # when this phase of this batch began: its time-out counts from here
    aside_before: Moment = 0.0  # for how many seconds the rollout had been paused then
    begun: Times = 0  # phases, in all batches and attempts
    turn: Times = 0  # the how many-th group it was to begin, or to fail
    attempt: Times = 0  # how often it has begun
    promoted: Times = 0  # batches after which a person let it go on
    reason: str | None = None  # why it failed: dependency, stopped, cancelled, or the name of a phase
    detail: str | None = None  # the same in a sentence, with numbers
    unmet: tuple[str, ...] = ()  # the criteria that were not met, with numbers
    accepted: str | None = None  # its failure counts as success, for this reason of a person
    by: str | None = None  # the person that promoted or accepted it


class RolloutRecord(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``rollouts/<deployment>/<id>``: a strategy that is being carried out."""

    strategy: Strategy  # without its groups
    groups: tuple[str, ...]  # in the order of the document
    nodes: Times  # how many there are
    inventory: str  # the version of the inventory that the members were chosen from (selecting.version)
    state: RolloutState = RolloutState.RUNNING
    since: Moment = 0.0  # when the state changed last
    started: Moment = 0.0
    by: str | None = None  # the person that started it, or changed its course last
    reason: str | None = None  # the reason for its state
    attempt: Times = 1  # +1 whenever a person lets it go on: by resume, retry, or accept
    by_person: bool = False  # it was cancelled by a person, not by a failure
    retrying: bool = False  # failed noderoles are being put back, to be sent again
    ignored_failures: tuple[str, ...] = ()  # failed groups that stop or cancel nothing any more, because of a resume
    breaker_offset: Times = 0  # failed nodes that the breaker does not count, for the same reason
    again: str | None = None  # it reruns ACTIVE noderoles: these, in words; None: it commits PROPOSED noderoles
    redeploy: bool = False  # with again: from the start, destructive ones too
    task_run: Id | None = None  # the run of tasks with the stages that its phases name
    sends: Mapping[str, tuple[str, ...]] = {}  # phase → the roles of the tasks of that run that it sends
    may_fail: tuple[str, ...] = ()  # of these, the roles that may fail
    aside: str | None = None  # author, end and reason of the pause of its deployment
    aside_since: Moment | None = None  # the time when that pause began for it
    aside_seconds: Moment = 0.0  # for how long it has stood still before


def cancelled(head: RolloutRecord) -> bool:
    """Whether a person is cancelling it: then runs are ended, also on nodes that have failed."""
    return head.state is RolloutState.CANCELLING and head.by_person


class Rollout(msgspec.Struct, frozen=True):
    """A whole rollout, as one value."""

    head: RolloutRecord
    groups: Mapping[str, GroupRecord]  # in the order of the document
    nodes: Mapping[
        str, Progress
    ]  # in the order in which they are sent: by name, those with anything to run again first
    members: Mapping[str, tuple[str, ...]]  # group → the names of its nodes
    sizes: tuple[int, ...]  # how many nodes each part has; for good

    @property
    def over(self) -> bool:
        return self.head.state in OVER


def split(nodes: Mapping[str, Progress]) -> tuple[int, ...]:
    """How many nodes go into each part, so that none can outgrow its znode in any state of its nodes."""
    sizes, room = [0], PART_BYTES
    for name, progress in nodes.items():
        own = len(msgspec.json.encode((name, progress.domains, progress.again)))
        most = own + REASON_BYTES + ERRORS_KEPT * MARK_BYTES + OTHER_BYTES
        if sizes[-1] and most > room:
            sizes.append(0)
            room = PART_BYTES
        sizes[-1] += 1
        room -= most
    return tuple(size for size in sizes if size)


def parts(rollout: Rollout) -> dict[str, Record]:
    """The records of a rollout by their path below its own (which is ""), in the order in which they are to be made."""
    made: dict[str, Record] = {f"nodes/{part:04}": NodesRecord(nodes=nodes) for part, nodes in _in_parts(rollout)}
    made |= {f"groups/{name}": record for name, record in rollout.groups.items()}
    made[""] = rollout.head
    return made


def changed(before: Rollout, after: Rollout) -> dict[str, Record]:
    """The records, as in ``parts``, that differ; a node that is the same object is passed over without a comparison."""
    made: dict[str, Record] = {}
    if after.nodes is not before.nodes:
        ends = list(accumulate(after.sizes))
        pairs = enumerate(zip(before.nodes.values(), after.nodes.values(), strict=True))
        differing = {bisect_right(ends, position) for position, (old, new) in pairs if old is not new and old != new}
        made |= {f"nodes/{part:04}": NodesRecord(nodes=nodes) for part, nodes in _in_parts(after, differing)}
    if after.groups is not before.groups:
        made |= {f"groups/{name}": record for name, record in after.groups.items() if record != before.groups[name]}
    if after.head != before.head:
        made[""] = after.head
    return made


def _in_parts(rollout: Rollout, wanted: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Progress]]]:
    """The nodes part by part: of all, or of these."""
    names = list(rollout.nodes) if wanted is None or wanted else []
    for part, (end, size) in enumerate(zip(accumulate(rollout.sizes), rollout.sizes, strict=True)):
        if wanted is None or part in wanted:
            yield part, {name: rollout.nodes[name] for name in names[end - size : end]}


def whole(head: RolloutRecord, groups: Mapping[str, GroupRecord], nodes: Iterable[NodesRecord]) -> Rollout:
    """A rollout from its parts; ``nodes`` in the order of their paths. Raises Invalid if the parts contradict one another.

    Code that uses the result need not check names and phases.
    """
    held = [record.nodes for record in nodes]
    every = {name: progress for some in held for name, progress in some.items()}
    faults = [*_faults(head, groups), *_faults_of_nodes(head, every)]
    if faults:
        raise Invalid(faults)
    names = list(every)
    ordered = {name: groups[name] for name in head.groups}
    members = {name: _members(name, record, names) for name, record in ordered.items()}
    return Rollout(head, ordered, every, members, tuple(map(len, held)))


def _faults(head: RolloutRecord, groups: Mapping[str, GroupRecord]) -> Iterator[str]:
    phases = [phase.name for phase in head.strategy.phases]
    if not phases:
        yield "it has no phases"
    for name in head.groups:
        if name not in groups:
            yield f"group {name} is not there"
            continue
        record = groups[name]
        if record.group.name != name:
            yield f"groups/{name}: the definition is of group {record.group.name}"
        if not 0 <= record.phase < len(phases) or record.batch < 0:
            yield f"groups/{name}: is in phase {record.phase} of batch {record.batch}, which there is not"
        if record.state is GroupState.FAILED and record.reason not in (*REASONS, *phases):
            yield f"groups/{name}: has failed for reason {record.reason}, which there is not"
        for above in record.group.depends_on:
            if above not in head.groups:
                yield f"groups/{name}: depends on group {above}, which there is not"


def _faults_of_nodes(head: RolloutRecord, nodes: Mapping[str, Progress]) -> Iterator[str]:
    phases, known = len(head.strategy.phases), {None, *head.groups}
    for name, progress in nodes.items():
        if progress.group not in known:
            yield f"node {name} was sent for group {progress.group}, which there is not"
        if not 0 <= progress.passed < phases + (progress.state is NodeState.SUCCESS):
            yield f"node {name} is {progress.state}, and has passed {progress.passed} of {phases} phases"


def _members(name: str, record: GroupRecord, names: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(names[position] for position in _positions(record.members))
    except (ValueError, IndexError) as wrong:
        raise Invalid(f"groups/{name}: the members are no positions among {len(names)} nodes: {wrong}") from wrong


def ranges(positions: Iterable[int]) -> str:
    """Ascending positions as they are written.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    found: list[list[int]] = []
    for position in positions:
        if found and position == found[-1][1] + 1:
            found[-1][1] = position
        else:
            found.append([position, position])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in found)


def _positions(written: str) -> Iterator[int]:
    for each in filter(None, written.split(",")):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)


# -- decisions --


class Decision(msgspec.Struct, frozen=True):
    """The new state of a node, of a group, or of the rollout (then the name is empty), and the reason.

    It holds the whole new record: to apply one twice changes nothing.
    """

    name: str
    record: Progress | GroupRecord | RolloutRecord
    reason: str


def apply(rollout: Rollout, decisions: Iterable[Decision]) -> Rollout:
    """The rollout after these decisions."""
    nodes: dict[str, Progress] = {}
    groups: dict[str, GroupRecord] = {}
    fields: dict[str, Any] = {}
    for decision in decisions:
        match decision.record:
            case Progress():
                nodes[decision.name] = decision.record
            case GroupRecord():
                groups[decision.name] = decision.record
            case RolloutRecord():
                fields["head"] = decision.record
    if nodes:
        fields["nodes"] = {**rollout.nodes, **nodes}
    if groups:
        fields["groups"] = {**rollout.groups, **groups}
    return replace(rollout, **fields)
