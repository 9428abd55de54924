"""Rollouts and their groups for tables, and for a picture that changes."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.rollout.records import NodeState
from nodepool_ocb.rollout.rounds.deciding import AT_WORK
from nodepool_ocb.views.executions import driver_words
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.rollouts.rows import GroupRow, RolloutDocument, RolloutHead, RolloutRow
from nodepool_ocb.views.view import View

LIVE_GROUPS: Final = 30  # of a picture


class RolloutWords(View, frozen=True, kw_only=True):
    """A rollout for a table."""

    rollout: str
    strategy: str
    state: str  # "running, paused"
    reason: str | None
    by: str | None
    groups: int
    nodes: int
    driver: str | None  # "a1 on h1"
    since: float
    started: float


class GroupWords(View, frozen=True, kw_only=True):
    """A group for a table."""

    group: str
    critical: bool
    state: str  # "failed, accepted"
    phase: str | None
    batch: str | None
    nodes: str | None  # "1 failure, 3 success"
    since: float
    detail: str | None


class AboutRollout(View, frozen=True, kw_only=True):
    """The head of a document for a table."""

    rollout: str
    strategy: str
    again: str | None  # the noderoles that run again
    task_run: str | None  # the run of tasks that it sends
    state: str  # "running, paused"
    reason: str | None
    since: float
    started: float
    by: str | None
    driver: str | None
    nodes: str | None  # "1 failure, 3 success"


class RolloutPicture(View, frozen=True):
    """A rollout that is under way, for a picture that changes."""

    head: str
    groups: tuple[GroupWords, ...]


def words(row: RolloutRow) -> RolloutWords:
    """A row for a table."""
    return RolloutWords(
        rollout=row.rollout,
        strategy=row.strategy,
        state=_state(row),
        reason=_reason(row),
        by=row.by,
        groups=row.groups,
        nodes=row.nodes,
        driver=driver_words(row.driver),
        since=row.since,
        started=row.started,
    )


def _state(head: RolloutHead) -> str:
    return f"{head.state}, paused" if head.paused else str(head.state)


def _reason(head: RolloutHead) -> str | None:
    """The reason of the state; of a rollout that pauses, the group that must be promoted."""
    group, detail = next(iter(head.paused.items()), ("", ""))
    return f"group {group} {detail}" if group else head.reason


def group_words(row: GroupRow) -> GroupWords:
    """A group for a table."""
    return GroupWords(
        group=row.group,
        critical=row.critical,
        state=f"{row.state}, accepted" if row.accepted else str(row.state),
        phase=row.phase,
        batch=row.batch,
        nodes=", ".join(f"{count} {state}" for state, count in row.nodes.items()) or None,
        since=row.since,
        detail=row.accepted or row.detail,
    )


def about(document: RolloutDocument) -> AboutRollout:
    """The head of a document for a table."""
    return AboutRollout(
        rollout=document.rollout,
        strategy=document.strategy,
        again=document.again,
        task_run=document.task_run,
        state=_state(document),
        reason=_reason(document),
        since=document.since,
        started=document.started,
        by=document.by,
        driver=driver_words(document.driver),
        nodes=", ".join(f"{len(nodes)} {state}" for state, nodes in document.nodes.items()) or None,
    )


def tally(document: RolloutDocument) -> Tally:
    """The number of nodes in each state."""
    counts = {str(state): len(nodes) for state, nodes in document.nodes.items()}
    done = str(NodeState.SUCCESS)
    return Tally(done, {done: counts.pop(done, 0), **counts})


def picture(document: RolloutDocument) -> RolloutPicture:
    """Not more than LIVE_GROUPS groups, those at work first."""
    nodes = sum(map(len, document.nodes.values()))
    done = len(document.nodes.get(NodeState.SUCCESS, ()))
    head = f"rollout {document.rollout}: {_state(document)}, {done} of {counted(nodes, 'node')} done"
    groups = document.groups
    if len(groups) > LIVE_GROUPS:
        groups = tuple(sorted(groups, key=lambda each: each.state not in AT_WORK)[:LIVE_GROUPS])
        head += f"; {len(groups)} of {counted(len(document.groups), 'group')}, those at work first"
    return RolloutPicture(head, tuple(map(group_words, groups)))
