"""A deletion as a chain of durable facts: the steps of a launch in reverse. Pure.

The machine goes first, then the node below /ocb, then the record. So a machine without a record is a leak, and a record
without a machine is harmless. If the provider's id is not recorded, the provider is asked for the machine with the stamp. A
failed or aborted launch ends with a record that has no machine; the rules delete it when they have counted it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.pool import PoolNode, PoolNodeState, launch_facts
from nodepool_ocb.pool.launches.launching import LaunchRefusal

FIRST_PAUSE_SECONDS: Final = 1.0  # before a refused deletion is tried again; doubles
LONGEST_PAUSE_SECONDS: Final = 60.0
ENDED: Final = frozenset({PoolNodeState.FAILED, PoolNodeState.ABORTED})


class DeletionAction(StrEnum):
    """The steps of a deletion."""

    WAIT = "wait"
    WRITE_DELETING = "write-deleting"
    FIND_MACHINE = "find-machine"
    DELETE_MACHINE = "delete-machine"
    DISMISS = "dismiss"  # delete the node below /ocb
    WRITE_BARE = "write-bare"  # the record of a failed launch says that it has no machine
    DELETE_RECORD = "delete-record"


class DeletionStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a deletion."""

    action: DeletionAction
    seconds: float = 0.0  # of WAIT
    reason: str | None = None  # of WAIT
    external_id: str | None = None  # of DELETE_MACHINE


class DeletionView(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion as its worker sees it. Observations are of the present hold of the node's lock."""

    record: PoolNode
    now: float
    keep_record: bool = False  # a launch failed: only its machine goes
    sought: bool = False  # the provider said whether a machine has the stamp
    found: str | None = None  # the provider's id of that machine
    gone: bool = False  # the provider said that the machine is gone
    dismissed: bool = False  # the node below /ocb is gone
    refused: LaunchRefusal | None = None  # the newest step, if it could not be done
    refusals: int = 0  # in a row


def next_deletion(view: DeletionView) -> DeletionStep | None:
    """The next step; None when there is nothing more to do."""
    record, facts = view.record, launch_facts(view.record)
    keep = view.keep_record and record.state in ENDED
    if not keep and record.state is not PoolNodeState.DELETING:
        return DeletionStep(action=DeletionAction.WRITE_DELETING)
    stamped = facts is not None and bool(facts.key)
    enrolled = facts is not None and facts.fqdn is not None
    if not view.gone and (record.external_id is not None or stamped):
        return _wait(view) or _machine(view)
    if enrolled and not view.dismissed:
        return _wait(view) or DeletionStep(action=DeletionAction.DISMISS)
    if keep:
        bare = record.external_id is None and not stamped and not enrolled
        return None if bare else DeletionStep(action=DeletionAction.WRITE_BARE)
    return DeletionStep(action=DeletionAction.DELETE_RECORD)


def _machine(view: DeletionView) -> DeletionStep:
    external_id = view.record.external_id or view.found
    if external_id is not None:
        return DeletionStep(action=DeletionAction.DELETE_MACHINE, external_id=external_id)
    return DeletionStep(action=DeletionAction.FIND_MACHINE)


def _wait(view: DeletionView) -> DeletionStep | None:
    """The wait before a refused step is tried again."""
    if view.refused is None:
        return None
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(10, view.refusals - 1))
    left = view.refused.at + pause - view.now
    if left <= 0:
        return None
    return DeletionStep(action=DeletionAction.WAIT, seconds=left, reason=view.refused.reason)
