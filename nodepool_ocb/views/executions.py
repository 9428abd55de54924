"""Rollouts and runs of tasks: the fields and documents that both have."""

from __future__ import annotations

from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.views.view import View, Whole


class Awaited(View, frozen=True):
    """The result of a wait for an execution."""

    outcome: str  # its state at the end; or paused, timeout
    row: View


def driver(holder: LockOwner | None) -> Whole[LockOwner] | None:
    """The driver as a field of a row."""
    return Whole(holder) if holder else None


def driver_words(driver: Whole[LockOwner] | None) -> str | None:
    """The driver for a table.

    >>> driver_words(Whole(LockOwner(daemon="a1", host="h1", pid=1, purpose="", since=0.0)))
    'a1 on h1'
    """
    return f"{driver.record.daemon} on {driver.record.host}" if driver else None


def reason(kept: str | None, aside: str | None, over: bool) -> str | None:
    """The reason of the state; of an execution under way in a paused deployment, the pause."""
    return f"its deployment is paused {aside}" if aside is not None and not over else kept
