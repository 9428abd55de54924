"""Times that were written under a clock that was wrong. Pure.

All times of records are ZooKeeper's, and the clocks of its leaders may differ a little. A time that lies further ahead than
that says nothing, and so holds nothing back.
"""

from __future__ import annotations

from typing import Final

MOST_STEP_SECONDS: Final = 60.0  # that the clocks of two leaders are expected to differ


def ahead(moment: float, now: float) -> bool:
    """Whether it lies in the future, further than clocks are expected to differ.

    >>> ahead(90.0, 100.0), ahead(130.0, 100.0), ahead(9e9, 100.0)
    (False, False, True)
    """
    return moment > now + MOST_STEP_SECONDS


def believed(moment: float, now: float) -> float:
    """The time of an event; long ago, if the written time is in the future.

    >>> believed(90.0, 100.0), believed(130.0, 100.0), believed(9e9, 100.0)
    (90.0, 130.0, 0.0)
    """
    return 0.0 if ahead(moment, now) else moment
