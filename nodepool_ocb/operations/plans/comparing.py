"""A plan beside the findings of a later decision. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.operations.plans.saved import PlanBasis, PlanDemand, calm, is_moment
from nodepool_ocb.views.changes import ChangeRow

SLACK_SECONDS: Final = 60.0  # between the clocks of two decisions
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def agrees(demand: PlanDemand, found: PlanBasis) -> bool:
    """Whether a decision found the plan."""
    if isinstance(demand, str):
        return found.digest == demand
    planned = demand.basis
    return found.digest == planned.digest and _same_moments(planned.rows, found.rows, found.at - planned.at)


def is_part(demand: PlanDemand, found: PlanBasis) -> bool:
    """Whether a decision after the first transaction of the plan goes on with it: it has no row beside those of the plan."""
    if isinstance(demand, str):
        return True
    rows = {_encode(calm(row)) for row in demand.rows}
    known = demand.records
    return all(_encode(calm(row)) in rows for row in found.rows) and all(
        known.get(path) == zxid for path, zxid in found.records.items()
    )


def _same_moments(planned: Sequence[ChangeRow], found: Sequence[ChangeRow], elapsed_seconds: float) -> bool:
    """Whether each moment is that of the plan, or has moved on by the time since the plan at most."""
    pairs = zip(_moments(planned), _moments(found), strict=True)
    return all(
        one == other
        or (_is_number(one) and _is_number(other) and -SLACK_SECONDS <= other - one <= elapsed_seconds + SLACK_SECONDS)
        for one, other in pairs
    )


def _moments(rows: Sequence[ChangeRow]) -> list[Any]:
    fields = (field for row in rows for field in row.fields or () if is_moment(row, field.field))
    return [value for field in fields for value in (field.old, field.new)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
