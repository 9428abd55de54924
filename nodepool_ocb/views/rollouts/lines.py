"""The command lines that let a rollout go on, to be copied: each names all that it is meant for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodepool_ocb.rollout.criteria import hopeless
from nodepool_ocb.rollout.groups import counted, failed
from nodepool_ocb.rollout.records import (
    CANCELLED,
    DEPENDENCY,
    LOST,
    REASONS,
    STOPPED,
    GroupState,
    Rollout,
    RolloutState,
)

HALTED: Final = frozenset({CANCELLED, STOPPED})  # why a group failed that a resume lets go on


def promote(name: str, rollout: Rollout, group: str) -> str:
    """For a group that pauses, in the rollout of this name (DEPLOYMENT/ID)."""
    record = rollout.groups[group]
    return f"nodepool-ocb rollout promote {group} {name} --batch {record.batch + 1}{_attempt(record.attempt)}"


def retry(name: str, rollout: Rollout) -> str:
    return f"nodepool-ocb rollout retry {name}{_attempt(rollout.head.attempt)}"


def resume(name: str, rollout: Rollout) -> str:
    return f"nodepool-ocb rollout resume {name}{_attempt(rollout.head.attempt)}"


def instead_of_retry(name: str) -> str:
    """The advice for a rollout that is over without a failure."""
    return f"see: nodepool-ocb rollout show {name}; or begin another: nodepool-ocb rollout start"


def accept(name: str, rollout: Rollout, group: str) -> str:
    attempt = _attempt(rollout.groups[group].attempt)
    return f"nodepool-ocb rollout accept {group} {name}{attempt} --reason WHY"


def all_of(name: str, rollout: Rollout) -> Iterator[str]:
    """Every command line that applies to the rollout now."""
    left_out = any(record.reason == DEPENDENCY and failed(record) for record in rollout.groups.values())
    for group, record in rollout.groups.items():
        if record.state is GroupState.PAUSED:
            yield promote(name, rollout, group)
        elif failed(record) and record.reason not in REASONS and (record.group.critical or left_out):
            yield accept(name, rollout, group)
    if not rollout.over:
        return
    if any(map(failed, rollout.groups.values())) or any(node.state in LOST for node in rollout.nodes.values()):
        yield retry(name, rollout)
    if rollout.head.state is not RolloutState.SUCCESS and not _in_vain(rollout):
        yield resume(name, rollout)


def advice(name: str, rollout: Rollout) -> str:
    """The advice for a rollout that failed or was cancelled."""
    if rollout.head.state is RolloutState.CANCELLED and not _in_vain(rollout):
        return f"to go on: {resume(name, rollout)}"
    return f"mend the cause, then: {retry(name, rollout)}"


def _in_vain(rollout: Rollout) -> bool:
    """Whether a resume cannot help. Then no halted group can meet its criteria with the nodes that have failed."""
    halted = [name for name, record in rollout.groups.items() if failed(record) and record.reason in HALTED]
    return bool(halted) and not any(_possible(rollout, name) for name in halted)


def _possible(rollout: Rollout, group: str) -> bool:
    count = counted(rollout, rollout.members[group], 0)
    return not hopeless(rollout.groups[group].group.success_criteria, count)


def _attempt(attempt: int) -> str:
    return f" --attempt {attempt}" if attempt > 1 else ""
