"""The result of a check, and the part of it that is stored in the noderole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.model.drift import CheckResult, Drift
from nodepool_ocb.model.records import NodeRole, State

CHECK: Final = "-check"  # the end of the name of a check's run
HONOURED: Final = "--check"  # a role's check that is its own script, with this behind it

#: Exit code of a check → result; any other code is UNKNOWN.
FOUND: Final[Mapping[int, Drift]] = {0: Drift.IN_SYNC, 2: Drift.DRIFTED}


def found(exit_code: int | None) -> Drift:
    """The result of a check with this exit code; None: the check did not end by itself.

    >>> found(0), found(2), found(1), found(None)
    (<Drift.IN_SYNC: 'in-sync'>, <Drift.DRIFTED: 'drifted'>, <Drift.UNKNOWN: 'unknown'>, <Drift.UNKNOWN: 'unknown'>)
    """
    return Drift.UNKNOWN if exit_code is None else FOUND.get(exit_code, Drift.UNKNOWN)


def noted(record: NodeRole, drift: Drift, at: float, run: str, epoch: int) -> CheckResult:
    """The kept result of a check of this noderole; ``record``: as it was during the check.

    Drift is ``unmended`` after a run that was to mend it, and stays so until a check finds none or the noderole runs again.
    """
    before = record.checked is not None and record.checked.unmended
    return CheckResult(
        drift=drift, at=at, run=run, epoch=epoch, unmended=drift is Drift.DRIFTED and (record.mended or before)
    )


def sentence(record: NodeRole) -> str:
    """The text about drift that follows "it is ACTIVE".

    >>> sentence(NodeRole(state=State.ACTIVE, since=0.0))
    ''
    """
    if record.checked is not None and record.checked.unmended:
        return (
            ", a check found its machine changed, and a refresh by the schedule changed nothing: `nodepool-ocb noderole drift`"
            " shows the difference; no schedule refreshes it again until a check finds none or a person refreshes it"
        )
    if record.drift is Drift.DRIFTED:
        return ", and a check found its machine changed: `nodepool-ocb noderole drift` shows how"
    return (
        ", and the newest check could not tell whether its machine has changed" if record.drift is Drift.UNKNOWN else ""
    )


def epoch(record: NodeRole) -> int:
    """The highest epoch under which a run or a check of it was claimed, as far as its record says."""
    return max(record.epoch, record.checked.epoch if record.checked else 0)


def before(record: NodeRole) -> int:
    """An epoch that the check which is asked for, or goes on, is above, and no check before it.

    >>> before(NodeRole(state=State.ACTIVE, since=0.0, epoch=7)), before(NodeRole(state=State.TRANSITION, since=0.0, epoch=7))
    (7, 6)
    """
    return epoch(record) - (record.state is State.TRANSITION)
