"""The commands of people to a rollout. Each returns the decisions to write, in one transaction; the engine does the rest.

A command that lets a rollout continue carries the state that its author saw. That is the batch after which a group pauses, or
the ``attempt`` of the group or of the rollout (None: not compared). So a repeat, or a second person, does no more than the
first.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.executions import ROLLOUT, Key, Versions
from nodepool_ocb.model.records import Change, RolloutPointer
from nodepool_ocb.rollout import records
from nodepool_ocb.rollout.groups import failed
from nodepool_ocb.rollout.records import (
    DEPENDENCY,
    LOST,
    REASONS,
    Decision,
    GroupRecord,
    GroupState,
    Rollout,
    RolloutState,
    brief,
)
from nodepool_ocb.rollout.states.rollouts import RolloutEvent, rollout_after

RS = RolloutState


def cancel(rollout: Rollout, now: float, by: str | None = None, reason: str | None = None) -> list[Decision]:
    """Send nothing more, take back the noderoles that have not begun, and end the running ones. Empty if cancelled before.

    Raises Conflict if the rollout is over.
    """
    if rollout.over:
        raise Conflict(f"the rollout is over ({rollout.head.state}): there is nothing to cancel")
    if rollout.head.state is RS.CANCELLING and rollout.head.by_person:
        return []
    message = brief(f"cancelled by {by or 'an unknown user'}" + (f": {reason}" if reason else ""))
    return [_headed(rollout, RolloutEvent.CANCEL, now, message, by_person=True, by=by)]


def resume(rollout: Rollout, now: float, by: str | None = None, attempt: int | None = None) -> list[Decision]:
    """Continue a rollout that a person, a critical group or the breaker stopped or cancelled; failed nodes stay failed.

    Raises Conflict while the rollout runs or is being cancelled, after its success, and if ``attempt`` is not the present one.
    """
    if rollout.head.state is RS.CANCELLING:
        raise Conflict("the rollout is being cancelled; wait until that is over, then resume")
    if rollout.head.state in (RS.RUNNING, RS.SUCCESS):
        hint = "; a group that pauses is promoted" if rollout.head.state is RS.RUNNING else ""
        raise Conflict(f"the rollout cannot be resumed: it is {rollout.head.state}{hint}")
    _same_attempt("the rollout", rollout.head.attempt, attempt)
    return [_resumed(rollout, RolloutEvent.RESUME, now, by, f"resumed by {by or 'an unknown user'}")]


def retry(rollout: Rollout, now: float, by: str | None = None, attempt: int | None = None) -> list[Decision]:
    """Send again every node that failed, and let their groups and those that failed begin once more.

    One that is unknown is asked first: if it has failed, it is sent again, too.
    """
    if not rollout.over:
        hint = "" if rollout.head.state is RS.CANCELLING else ", or cancel it first"
        raise Conflict(f"the rollout is {rollout.head.state}; wait until it is over{hint}")
    if nothing_failed(rollout):
        raise Conflict("nothing failed in this rollout")
    _same_attempt("the rollout", rollout.head.attempt, attempt)
    message = f"retried by {by or 'an unknown user'}"
    return [_again(rollout, RolloutEvent.RETRY, now, by, message, retrying=True, ignored_failures=())]


def nothing_failed(rollout: Rollout) -> bool:
    """Whether it is over, and a retry would find nothing to send again."""
    groups_failed = any(failed(record) for record in rollout.groups.values())
    return rollout.over and not groups_failed and all(node.state not in LOST for node in rollout.nodes.values())


def promote(
    rollout: Rollout, group: str, batch: int, by: str | None = None, attempt: int | None = None
) -> list[Decision]:
    """Let a group that pauses after this batch (from 1) go on with the next; nothing if it was let go on already."""
    record = _group(rollout, group)
    if record.attempt:
        _same_attempt(f"group {group}", record.attempt, attempt)
    if batch <= record.promoted:
        return []
    if record.state is not GroupState.PAUSED:
        raise Conflict(f"group {group} does not pause: it is {record.state}")
    if batch != record.batch + 1:
        raise Conflict(f"group {group} pauses after batch {record.batch + 1}, not {batch}; look at it again")
    return [Decision(group, replace(record, promoted=batch, by=by), f"promoted by {by or 'an unknown user'}")]


def accept(
    rollout: Rollout, group: str, reason: str, now: float, by: str | None = None, attempt: int | None = None
) -> list[Decision]:
    """Let a group's failure count as success: groups that depend on it go on, and it does not fail the rollout.

    Empty if it is accepted already. Raises Conflict for a group that has not failed or was never sent, without a reason, and if
    ``attempt`` is not the present one.
    """
    record = _group(rollout, group)
    if record.state is not GroupState.FAILED:
        raise Conflict(f"group {group} has not failed: it is {record.state}")
    if record.reason in REASONS:
        raise Conflict(
            f"group {group} was never sent: {record.detail}; accept the failure that it depends on, or resume"
        )
    if not reason.strip():
        raise Conflict("a failure is accepted for a reason; give one")
    _same_attempt(f"group {group}", record.attempt, attempt)
    if record.accepted is not None:
        return []
    reason = brief(reason)
    made = [
        Decision(group, replace(record, accepted=reason, by=by), f"accepted by {by or 'an unknown user'}: {reason}")
    ]
    left_out = any(record.reason == DEPENDENCY and failed(record) for record in rollout.groups.values())
    if rollout.head.state is RS.FAILED or (rollout.head.state is RS.SUCCESS and left_out):
        message = f"failure of group {group} accepted: {reason}"
        made.append(_resumed(rollout, RolloutEvent.ACCEPT, now, by, message))
    return made


def _resumed(rollout: Rollout, event: RolloutEvent, now: float, by: str | None, message: str) -> Decision:
    ignored_failures = tuple(name for name, record in rollout.groups.items() if failed(record))
    breaker_offset = sum(progress.state in LOST for progress in rollout.nodes.values())
    return _again(rollout, event, now, by, message, ignored_failures=ignored_failures, breaker_offset=breaker_offset)


def _again(rollout: Rollout, event: RolloutEvent, now: float, by: str | None, message: str, **fields: Any) -> Decision:
    attempt = rollout.head.attempt + 1
    return _headed(rollout, event, now, message, by_person=False, by=by, attempt=attempt, **fields)


def _same_attempt(what: str, now: int, seen: int | None) -> None:
    if seen is not None and seen != now:
        raise Conflict(
            f"{what} is at attempt {now} by now, not {seen}: it was continued meanwhile; see: nodepool-ocb rollout show;"
            f" then give --attempt {now}"
        )


def _headed(rollout: Rollout, event: RolloutEvent, now: float, message: str, **fields: Any) -> Decision:
    return Decision("", rollout_after(rollout.head, event, now, reason=brief(message), **fields), message)


def _group(rollout: Rollout, name: str) -> GroupRecord:
    if name not in rollout.groups:
        raise NotFound(f"the rollout has no group {name}; it has {', '.join(list(rollout.groups)[:20])}")
    return rollout.groups[name]


def transaction(
    key: Key, before: Rollout, after: Rollout, versions: Versions[RolloutPointer], now: float
) -> list[Change]:
    """The transaction of the decisions of a command. A driver, if there is one, reads the whole rollout again before it
    continues.

    Raises Conflict if a rollout that is over would resume although there is a newer one.
    """
    known = versions.pointer
    if known.newest != key.id and not after.over:
        raise Conflict(
            f"rollout {key.id} is not the newest of deployment {key.deployment}; that is {known.newest};"
            f" see: nodepool-ocb rollout show {key.deployment}/{known.newest}"
        )
    parts = records.changed(before, after)
    if not parts:
        return []
    counts = replace(known, over=after.over, since=now) if known.newest == key.id else known
    return ROLLOUT.asked(*key, parts, counts, versions)
