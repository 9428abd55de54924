"""The table of a member of a rollout, a node. The prose stands in the docstring of the folder."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.model.statemachines import StateMachine
from nodepool_ocb.rollout.records import NodeState, Progress


class MemberEvent(StrEnum):
    """The events of a member of a rollout."""

    ENTER = "ENTER"  # its rollout begins
    SEND = "SEND"  # it goes in flight for the phase of a group
    SENT = "SENT"  # its noderoles are committed, or retried
    PASS = "PASS"  # the phase succeeded, and another one follows
    FINISH = "FINISH"  # the last phase succeeded
    FAIL = "FAIL"  # the phase failed
    TIME_OUT = "TIME_OUT"  # its group ran out of time while it was in flight
    RECALL = "RECALL"  # it was taken back before its first phase was done
    RECALL_PREPARED = "RECALL_PREPARED"  # it was taken back before a later phase was done
    RETRY = "RETRY"  # it will be sent again, and has passed no phase
    RETRY_PREPARED = "RETRY_PREPARED"  # it will be sent again, and has passed a phase


MEMBERS: Final = StateMachine(
    "a member of a rollout",
    NodeState,
    MemberEvent,
    {
        (None, MemberEvent.ENTER): NodeState.NOT_STARTED,
        (NodeState.NOT_STARTED, MemberEvent.SEND): NodeState.SENDING,
        (NodeState.PREPARED, MemberEvent.SEND): NodeState.SENDING,
        (NodeState.SENDING, MemberEvent.SENT): NodeState.SENT,
        (NodeState.SENDING, MemberEvent.PASS): NodeState.PREPARED,
        (NodeState.SENT, MemberEvent.PASS): NodeState.PREPARED,
        (NodeState.UNKNOWN, MemberEvent.PASS): NodeState.PREPARED,
        (NodeState.SENDING, MemberEvent.FINISH): NodeState.SUCCESS,
        (NodeState.SENT, MemberEvent.FINISH): NodeState.SUCCESS,
        (NodeState.UNKNOWN, MemberEvent.FINISH): NodeState.SUCCESS,
        (NodeState.SENDING, MemberEvent.FAIL): NodeState.FAILURE,
        (NodeState.SENT, MemberEvent.FAIL): NodeState.FAILURE,
        (NodeState.UNKNOWN, MemberEvent.FAIL): NodeState.FAILURE,
        (NodeState.SENDING, MemberEvent.TIME_OUT): NodeState.UNKNOWN,
        (NodeState.SENT, MemberEvent.TIME_OUT): NodeState.UNKNOWN,
        (NodeState.SENDING, MemberEvent.RECALL): NodeState.NOT_STARTED,
        (NodeState.SENT, MemberEvent.RECALL): NodeState.NOT_STARTED,
        (NodeState.SENDING, MemberEvent.RECALL_PREPARED): NodeState.PREPARED,
        (NodeState.SENT, MemberEvent.RECALL_PREPARED): NodeState.PREPARED,
        (NodeState.FAILURE, MemberEvent.RETRY): NodeState.NOT_STARTED,
        (NodeState.FAILURE, MemberEvent.RETRY_PREPARED): NodeState.PREPARED,
    },
)


def new_member(event: MemberEvent, now: float, **fields: Any) -> Progress:
    """The record that an event makes. ``fields``: its other keys. Raises Conflict if the event makes none."""
    return Progress(state=MEMBERS.to(None, event), since=now, **fields)


def member_after(progress: Progress, event: MemberEvent, now: float, **fields: Any) -> Progress:
    """The member after an event; SENT keeps the time. Raises Conflict if the table has no such pair.

    ``fields``: the other keys that change.
    """
    state = MEMBERS.to(progress.state, event)
    return replace(progress, state=state, since=progress.since if event is MemberEvent.SENT else now, **fields)


def put_back(progress: Progress, event: MemberEvent, now: float, **fields: Any) -> Progress:
    """The member after RECALL or RETRY, with the phases that it has passed."""
    later = {MemberEvent.RECALL: MemberEvent.RECALL_PREPARED, MemberEvent.RETRY: MemberEvent.RETRY_PREPARED}
    return member_after(progress, later[event] if progress.passed else event, now, **fields)
