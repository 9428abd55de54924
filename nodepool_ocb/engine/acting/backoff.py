"""The pause of a noderole between two attempts. Pure."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.model.ranges import BACKOFF_SECONDS
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.model.skew import MOST_STEP_SECONDS

LONGEST_BACKOFF_SECONDS: Final = BACKOFF_SECONDS  # between two attempts of a noderole


def backoff_left(record: NodeRole, now: float) -> float:
    """How many seconds until its next attempt; 0 where it need not wait.

    A time further ahead than any back-off was written while a clock was wrong, and holds nothing back.

    >>> backoff_left(NodeRole.of(state=State.TODO, since=0.0, not_before=90.0), 60.0)
    30.0
    >>> backoff_left(NodeRole.of(state=State.TODO, since=9e9, not_before=9e9), 60.0)
    0.0
    """
    left = record.not_before - now
    return left if record.state is State.TODO and 0 < left <= LONGEST_BACKOFF_SECONDS + MOST_STEP_SECONDS else 0.0
