"""Checks, and the drift that they find: parts of the records of noderoles and deployments."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.ranges import Count, Moment, RunName


class Drift(StrEnum):
    """What a check found."""

    IN_SYNC = "in-sync"  # the machine is as the newest run left it
    DRIFTED = "drifted"  # it is not
    UNKNOWN = "unknown"  # the check could not tell


#: In place of a Drift, of a noderole that nobody checked since its newest run.
UNCHECKED: Final = "unchecked"


class Checking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A check that is asked for, or goes on; the rest is what the noderole had before, and gets back."""

    since: Moment = 0.0
    run: RunName | None = None
    epoch: Count = 0
    refresh: bool = False  # somebody asked meanwhile that it runs again: it does so when the check has ended


class Checked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the newest check found since the newest run."""

    drift: Drift
    at: Moment
    run: RunName  # its record is runs/<run>
    epoch: Count  # of the node, under which it was claimed
    unmended: bool = False  # drift that was still there after a schedule had it run again: no schedule does so any more


class Checks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When what is ACTIVE in a deployment, and in those below it that say nothing else, is checked."""

    schedule: str  # as cron has it: minute, hour, day, month, weekday; in UTC
    since: Moment  # when that was said: what came due before is not made up for
    refresh: bool = False  # what has drifted is run again in place
