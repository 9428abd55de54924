"""The table of a group of a rollout. The prose stands in the docstring of the folder."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.model.statemachines import StateMachine
from nodepool_ocb.rollout.records import GroupRecord, GroupState


class GroupEvent(StrEnum):
    """The events of a group of a rollout."""

    PLAN = "PLAN"  # its rollout begins, with the members chosen
    START = "START"  # its turn has come: the first phase of the first batch begins
    PAUSE = "PAUSE"  # a batch after which it pauses has succeeded
    NEXT = "NEXT"  # the next batch begins
    SUCCEED = "SUCCEED"  # the last phase of the last batch has succeeded
    FAIL = "FAIL"  # its criteria are not met, its phase ran out of time, or others took it along
    REOPEN = "REOPEN"  # the cause that took it along does not hold any more
    RETRY = "RETRY"  # a person has its failed nodes sent again


GROUPS: Final = StateMachine(
    "a group of a rollout",
    GroupState,
    GroupEvent,
    {
        (None, GroupEvent.PLAN): GroupState.NOT_STARTED,
        (GroupState.NOT_STARTED, GroupEvent.START): GroupState.RUNNING,
        (GroupState.RUNNING, GroupEvent.PAUSE): GroupState.PAUSED,
        (GroupState.RUNNING, GroupEvent.NEXT): GroupState.RUNNING,
        (GroupState.PAUSED, GroupEvent.NEXT): GroupState.RUNNING,  # a person promoted it
        (GroupState.RUNNING, GroupEvent.SUCCEED): GroupState.SUCCESS,
        (GroupState.NOT_STARTED, GroupEvent.FAIL): GroupState.FAILED,
        (GroupState.RUNNING, GroupEvent.FAIL): GroupState.FAILED,
        (GroupState.PAUSED, GroupEvent.FAIL): GroupState.FAILED,
        (GroupState.FAILED, GroupEvent.REOPEN): GroupState.NOT_STARTED,
        (GroupState.FAILED, GroupEvent.RETRY): GroupState.NOT_STARTED,
        (GroupState.SUCCESS, GroupEvent.RETRY): GroupState.NOT_STARTED,  # a member that failed in it is put back
    },
)


def new_group(event: GroupEvent, now: float, **fields: Any) -> GroupRecord:
    """The record that an event makes. ``fields``: its other keys. Raises Conflict if the event makes none."""
    return GroupRecord(state=GROUPS.to(None, event), since=now, **fields)


def group_after(record: GroupRecord, event: GroupEvent, now: float, **fields: Any) -> GroupRecord:
    """The group after an event; the time changes with the state. Raises Conflict if the table has no such pair.

    ``fields``: the other keys that change.
    """
    state = GROUPS.to(record.state, event)
    return replace(record, state=state, since=record.since if state is record.state else now, **fields)
