"""Rollouts: one a row, and one with its groups and the nodes that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.rollout.records import (
    LOST,
    OVER,
    GroupRecord,
    GroupState,
    NodeState,
    Rollout,
    RolloutRecord,
    RolloutState,
)
from nodepool_ocb.rollout.report import ORDER, finish, report
from nodepool_ocb.views import executions
from nodepool_ocb.views.rollouts import lines
from nodepool_ocb.views.view import View, Whole


class RolloutHead(View, frozen=True, kw_only=True):
    """The fields that a row and a document of a rollout have in common."""

    rollout: str  # DEPLOYMENT/ID
    deployment: str
    id: str
    strategy: str
    state: RolloutState
    reason: str | None
    since: float
    started: float
    attempt: int
    by: str | None
    again: str | None  # the ACTIVE noderoles that run again, in words; None: it commits PROPOSED noderoles
    task_run: str | None  # DEPLOYMENT/ID of the run of tasks that it sends
    paused: Mapping[str, str]  # groups to promote → the batch before the pause, with numbers


class RolloutRow(RolloutHead, frozen=True, kw_only=True):
    """A rollout at a glance."""

    groups: int
    nodes: int
    driver: Whole[LockOwner] | None


class GroupRow(View, frozen=True, kw_only=True):
    """A group at a glance; its phase and batch are those where it is, or where it ended."""

    group: str
    critical: bool
    state: GroupState
    phase: str | None
    batch: str | None  # "2/3", where it has more than one
    members: int
    nodes: Mapping[NodeState, int]  # how many are in which state
    since: float
    reason: str | None
    detail: str | None
    unmet: tuple[str, ...]
    accepted: str | None
    by: str | None
    attempt: int
    depends_on: tuple[str, ...]


class NodeProgressRow(View, frozen=True, kw_only=True):
    """A node of a rollout at a glance."""

    node: str
    state: NodeState
    group: str | None
    since: float
    attempt: int
    reason: str | None


class RolloutDocument(RolloutHead, frozen=True, kw_only=True):
    """All of a rollout."""

    groups: tuple[GroupRow, ...]  # in their turn
    nodes: Mapping[NodeState, tuple[str, ...]]
    driver: Whole[LockOwner] | None
    finish: str
    failed: tuple[NodeProgressRow, ...]
    next: tuple[str, ...]  # commands to go on with


class Reported(View, frozen=True):
    """All of a rollout, with its report."""

    row: RolloutDocument
    report: str


class WatchLine(View, frozen=True):
    """A change of a rollout that is watched."""

    kind: str  # node, group or rollout
    rollout: str
    row: NodeProgressRow | GroupRow | RolloutRow


class DeletedRollout(View, frozen=True, kw_only=True):
    """A rollout that is watched, and was deleted."""

    kind: str = "rollout"
    rollout: str
    state: None = None


def row(key: Key, head: RolloutRecord, holder: LockOwner | None, groups: Mapping[str, GroupRecord]) -> RolloutRow:
    """A rollout and its driver; ``groups`` may be left out if the rollout is over."""
    return RolloutRow(
        **_head(key, head, groups), groups=len(head.groups), nodes=head.nodes, driver=executions.driver(holder)
    )


def document(key: Key, rollout: Rollout, holder: LockOwner | None) -> RolloutDocument:
    """The whole rollout: its groups, its nodes by state, the nodes that failed, and the next commands."""
    named: dict[NodeState, list[str]] = {state: [] for state in ORDER}
    for node, progress in rollout.nodes.items():
        named[progress.state].append(node)
    lost = (node for node, progress in rollout.nodes.items() if progress.state in LOST)
    return RolloutDocument(
        **_head(key, rollout.head, rollout.groups),
        groups=tuple(group_row(rollout, each) for each in in_turn(rollout)),
        nodes={state: tuple(nodes) for state, nodes in named.items() if nodes},
        driver=executions.driver(holder),
        finish=finish(rollout),
        failed=tuple(node_row(rollout, node) for node in lost),
        next=tuple(lines.all_of(str(key), rollout)),
    )


def _head(key: Key, head: RolloutRecord, groups: Mapping[str, GroupRecord]) -> dict[str, Any]:
    shared = ("state", "reason", "since", "started", "attempt", "by", "again")
    fields = {each: getattr(head, each) for each in shared}
    fields["reason"] = executions.reason(head.reason, head.aside, head.state in OVER)
    fields["paused"] = {
        group: record.detail or "pauses" for group, record in groups.items() if record.state is GroupState.PAUSED
    }
    fields["task_run"] = str(Key(key.deployment, head.task_run)) if head.task_run else None
    return {"rollout": str(key), "deployment": key.deployment, "id": key.id, "strategy": head.strategy.name, **fields}


def in_turn(rollout: Rollout) -> list[str]:
    """The groups in the order in which they began, then those that have not."""
    last = len(rollout.groups) + 1
    return sorted(rollout.groups, key=lambda each: rollout.groups[each].turn or last)


def _batches(record: GroupRecord, members: int) -> int:
    """The number of batches that send all members: those of the group, and one with the rest, if any is left."""
    sizes = [batch.of(members) for batch in record.group.batches]
    return next((number for number, size in enumerate(sizes, 1) if size == members), len(sizes) + 1)


def group_row(rollout: Rollout, group: str) -> GroupRow:
    """A group that the rollout has."""
    record = rollout.groups[group]
    begun = record.state is not GroupState.NOT_STARTED and record.attempt > 0
    batches = _batches(record, len(rollout.members[group]))
    states = Counter(rollout.nodes[node].state for node in rollout.members[group])
    return GroupRow(
        group=group,
        critical=record.group.critical,
        state=record.state,
        phase=rollout.head.strategy.phases[record.phase].name if begun else None,
        batch=f"{record.batch + 1}/{batches}" if begun and batches > 1 else None,
        members=len(rollout.members[group]),
        nodes={state: states[state] for state in ORDER if states[state]},
        since=record.since,
        reason=record.reason,
        detail=record.detail,
        unmet=record.unmet,
        accepted=record.accepted,
        by=record.by,
        attempt=record.attempt,
        depends_on=record.group.depends_on,
    )


def node_row(rollout: Rollout, node: str) -> NodeProgressRow:
    """A node that the rollout has."""
    progress = rollout.nodes[node]
    return NodeProgressRow(
        node=node,
        state=progress.state,
        group=progress.group,
        since=progress.since,
        attempt=progress.attempt,
        reason=progress.reason,
    )


def reported(document: RolloutDocument, rollout: Rollout) -> Reported:
    """The document with the report of the same rollout."""
    return Reported(document, report(rollout))


def watched(key: Key, rollout: Rollout, holder: LockOwner | None) -> Iterator[tuple[tuple[str, str], WatchLine]]:
    """Everything that may change, by kind and name: nodes, then groups, then the rollout."""
    for node in rollout.nodes:
        yield ("node", node), WatchLine("node", str(key), node_row(rollout, node))
    for group in in_turn(rollout):
        yield ("group", group), WatchLine("group", str(key), group_row(rollout, group))
    yield ("rollout", ""), WatchLine("rollout", str(key), row(key, rollout.head, holder, rollout.groups))
