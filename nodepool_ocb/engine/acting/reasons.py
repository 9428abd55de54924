"""The reasons that may keep a noderole from starting, as codes; and one such reason in words. ``readiness`` finds them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Code(StrEnum):
    """Why a noderole does not start."""

    NODE_HELD = "NODE_HELD"  # a person holds its node
    PAUSED = "PAUSED"  # its deployment, one above it, or every running annealer is paused
    PROPOSED = "PROPOSED"
    ROLLOUT_WAITING = "ROLLOUT_WAITING"  # PROPOSED, and a rollout commits it when its turn comes
    ROLLOUT_LEFT_OUT = "ROLLOUT_LEFT_OUT"  # PROPOSED, and the rollout that was to commit it does not do so any more
    DEPLOYMENT_PROPOSED = "DEPLOYMENT_PROPOSED"
    FAILED = "FAILED"  # it is itself in ERROR
    PARENT_ERROR = "PARENT_ERROR"
    PARENT_WAITING = "PARENT_WAITING"
    UNREADABLE = (
        "UNREADABLE"  # a record or attributes that it depends on cannot be read: garbage, or of a later version
    )
    NODE_NOT_ALIVE = "NODE_NOT_ALIVE"
    NODE_SUSPECTED = "NODE_SUSPECTED"  # an annealer does not reach its node, and cannot tell if the machine is at fault
    NODE_NOT_AVAILABLE = "NODE_NOT_AVAILABLE"
    NODE_DECOMMISSIONED = "NODE_DECOMMISSIONED"  # the machine was taken out of service
    INSTALL_NOT_ALLOWED = "INSTALL_NOT_ALLOWED"  # it erases disks, and its node does not allow that
    NODE_DELETING = "NODE_DELETING"
    NODE_FAILED = "NODE_FAILED"  # another task of the same run failed on its node
    NODE_BUSY = "NODE_BUSY"
    NODE_CLAIMED = "NODE_CLAIMED"  # a claim exists, but no annealer is known to work by it
    INCOMPLETE = "INCOMPLETE"  # a znode that every claim needs is not there
    CHILD_UNSETTLED = "CHILD_UNSETTLED"  # a child that must wait for it is not settled yet
    JIG_INACTIVE = "JIG_INACTIVE"
    HOOK_PENDING = "HOOK_PENDING"
    HOOK_REFUSED = "HOOK_REFUSED"  # its role refuses to be in its deployment as that is
    BACKOFF = "BACKOFF"
    GIVEN_BACK = "GIVEN_BACK"  # it may start at any moment; an attempt at it ended without an outcome
    NO_ANNEALER = "NO_ANNEALER"
    DESTRUCTIVE_DONE = "DESTRUCTIVE_DONE"
    OVERDUE = "OVERDUE"  # an annealer holds it longer than its run can last
    RUNNING = "RUNNING"  # an annealer works on it now
    DONE = "DONE"  # ACTIVE, and no rerun or check is requested


#: Codes of a noderole that is done or at work: nothing keeps it back.
NOTHING_TO_HOLD: Final = frozenset({Code.DONE, Code.DESTRUCTIVE_DONE, Code.RUNNING})


class Reason(msgspec.Struct, frozen=True):
    """A reason that a noderole does not start."""

    code: Code
    subject: str  # the obstacle: a noderole, a node, a deployment, a jig
    since: float  # seconds since 1970; 0 if not known
    text: str
    advice: str
