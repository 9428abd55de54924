"""The table of a rollout. The prose stands in the docstring of the folder."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.model.statemachines import StateMachine
from nodepool_ocb.rollout.records import RolloutRecord, RolloutState


class RolloutEvent(StrEnum):
    """The events of a rollout."""

    BEGIN = "BEGIN"  # a person starts it
    STOP = "STOP"  # a critical group failed: no further group begins
    GIVE_UP = "GIVE_UP"  # a critical group failed: the rollout is cancelled
    TRIP = "TRIP"  # more nodes failed than the breaker allows
    CANCEL = "CANCEL"  # a person cancels it
    SUCCEED = "SUCCEED"  # every group is over, and no critical group failed
    FAIL = "FAIL"  # every group is over, and a critical group failed, or the breaker tripped
    CANCELLED = "CANCELLED"  # every group is over after a person cancelled it
    RESUME = "RESUME"  # a person lets it go on
    RETRY = "RETRY"  # a person has the failed nodes sent again
    ACCEPT = "ACCEPT"  # a person accepts the failure of a group, and it goes on


ROLLOUTS: Final = StateMachine(
    "a rollout",
    RolloutState,
    RolloutEvent,
    {
        (None, RolloutEvent.BEGIN): RolloutState.RUNNING,
        (RolloutState.RUNNING, RolloutEvent.STOP): RolloutState.STOPPING,
        (RolloutState.RUNNING, RolloutEvent.GIVE_UP): RolloutState.CANCELLING,
        (RolloutState.STOPPING, RolloutEvent.GIVE_UP): RolloutState.CANCELLING,
        (RolloutState.RUNNING, RolloutEvent.TRIP): RolloutState.CANCELLING,
        (RolloutState.STOPPING, RolloutEvent.TRIP): RolloutState.CANCELLING,
        (RolloutState.RUNNING, RolloutEvent.CANCEL): RolloutState.CANCELLING,
        (RolloutState.STOPPING, RolloutEvent.CANCEL): RolloutState.CANCELLING,
        (RolloutState.CANCELLING, RolloutEvent.CANCEL): RolloutState.CANCELLING,  # a failure cancelled it before
        (RolloutState.RUNNING, RolloutEvent.SUCCEED): RolloutState.SUCCESS,
        (RolloutState.STOPPING, RolloutEvent.SUCCEED): RolloutState.SUCCESS,
        (RolloutState.RUNNING, RolloutEvent.FAIL): RolloutState.FAILED,
        (RolloutState.STOPPING, RolloutEvent.FAIL): RolloutState.FAILED,
        (RolloutState.CANCELLING, RolloutEvent.FAIL): RolloutState.FAILED,
        (RolloutState.CANCELLING, RolloutEvent.CANCELLED): RolloutState.CANCELLED,
        (RolloutState.STOPPING, RolloutEvent.RESUME): RolloutState.RUNNING,
        (RolloutState.FAILED, RolloutEvent.RESUME): RolloutState.RUNNING,
        (RolloutState.CANCELLED, RolloutEvent.RESUME): RolloutState.RUNNING,
        (RolloutState.SUCCESS, RolloutEvent.RETRY): RolloutState.RUNNING,
        (RolloutState.FAILED, RolloutEvent.RETRY): RolloutState.RUNNING,
        (RolloutState.CANCELLED, RolloutEvent.RETRY): RolloutState.RUNNING,
        (RolloutState.SUCCESS, RolloutEvent.ACCEPT): RolloutState.RUNNING,  # groups that depend on it were left out
        (RolloutState.FAILED, RolloutEvent.ACCEPT): RolloutState.RUNNING,
    },
)


def new_rollout(event: RolloutEvent, now: float, **fields: Any) -> RolloutRecord:
    """The record that an event makes. ``fields``: its other keys. Raises Conflict if the event makes none."""
    return RolloutRecord(state=ROLLOUTS.to(None, event), since=now, started=now, **fields)


def rollout_after(head: RolloutRecord, event: RolloutEvent, now: float, **fields: Any) -> RolloutRecord:
    """The rollout after an event. ``fields``: the other keys that change. Raises Conflict if the table has no such pair."""
    return replace(head, state=ROLLOUTS.to(head.state, event), since=now, **fields)
