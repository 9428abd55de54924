"""Checks, and the drift that they find: parts of the records of noderoles and deployments."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.ranges import Count, Moment, RunName


class Drift(StrEnum):
    """The result of a check."""

    IN_SYNC = "in-sync"  # the machine is as the newest run left it
    DRIFTED = "drifted"  # it is not
    UNKNOWN = "unknown"  # the check could not tell


#: In place of a Drift, of a noderole without a check since its newest run.
UNCHECKED: Final = "unchecked"


class PendingCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A check that is requested, or goes on; the rest are fields that the noderole had before, and gets back."""

    since: Moment = 0.0
    run: RunName | None = None
    epoch: Count = 0
    refresh: bool = False  # a rerun was requested meanwhile: it begins when the check has ended


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The result of the newest check since the newest run."""

    drift: Drift
    at: Moment
    run: RunName  # its record is runs/<run>
    epoch: Count  # of the node, under which it was claimed
    unmended: bool = False  # drift that was still there after a schedule had it run again: no schedule does so any more


class Checks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times of checks of ACTIVE noderoles in a deployment, and in those below it without a schedule."""

    schedule: str  # as cron has it: minute, hour, day, month, weekday; in UTC
    since: Moment  # the time of this setting: earlier ticks are not made up for
    refresh: bool = False  # drifted noderoles run again in place
