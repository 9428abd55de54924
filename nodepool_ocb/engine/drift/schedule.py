"""When a schedule wants a check: by its ticks, and by the time of each noderole's last run or check; no tick is stored.

A schedule is cron's, in UTC. A noderole is due if it neither ran nor was checked since the last tick. So every annealer
comes to the same result at the same time. A tick during an outage is made up for, once. A tick before the schedule was
set does not count.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from nodepool_ocb.engine.drift.asking import checks, reachable, refusal
from nodepool_ocb.engine.world import Vertex, World

MINUTE = timedelta(minutes=1)


def wrong(schedule: str) -> str | None:
    """Why it is no schedule; None for one.

    >>> wrong("0 3 * * *"), wrong("0 25 * * *")
    (None, "'0 25 * * *' is no schedule: Bad hour; write minute, hour, day, month, weekday, as in '0 3 * * *'")
    """
    from cronsim import CronSim, CronSimError  # here, so that the help of a noun does not load it

    how = "write minute, hour, day, month, weekday, as in '0 3 * * *'"
    try:
        next(CronSim(schedule, datetime(2000, 1, 1, tzinfo=UTC)))
    except (CronSimError, ValueError) as error:
        return f"{schedule!r} is no schedule: {error}; {how}"
    except StopIteration:
        return f"{schedule!r} never comes; {how}"
    return None


def previous_tick(schedule: str, now: float) -> float | None:
    """The newest tick that is not after ``now``; None if there was none, or for an invalid schedule.

    >>> previous_tick("0 3 * * *", 97200.0), previous_tick("0 3 * * *", 97199.0), previous_tick("?", 0.0)
    (97200.0, 10800.0, None)
    """
    return _tick(schedule, int(now // 60), reverse=True)


def next_tick(schedule: str, now: float) -> float | None:
    """The first after ``now``.

    >>> next_tick("0 3 * * *", 10800.0)
    97200.0
    """
    return _tick(schedule, int(now // 60), reverse=False)


@lru_cache(maxsize=1024)  # it is asked for each noderole of a deployment, within the same minute
def _tick(schedule: str, minute: int, reverse: bool) -> float | None:
    from cronsim import CronSim, CronSimError

    at = datetime.fromtimestamp(minute * 60, UTC) + (MINUTE if reverse else timedelta())
    try:
        return next(CronSim(schedule, at, reverse=reverse)).timestamp()
    except (CronSimError, ValueError, StopIteration, OverflowError):
        return None


def due(world: World, vertex: Vertex, now: float) -> bool:
    """Whether the schedule of its deployment wants a check of it, and it can be checked now.

    A noderole that ran again after drift is due at once: only a check tells whether that changed anything.
    """
    record = vertex.record
    wanted = checks(world, record.deployment)
    if wanted is None or record.check is not None or vertex.unreadable:
        return False
    if not (record.mended and record.checked is None):
        tick = previous_tick(wanted.schedule, now)
        last = max(record.since, record.checked.at if record.checked else 0.0, wanted.since)
        if tick is None or last >= tick:
            return False
    return reachable(vertex) and refusal(world, vertex) is None
