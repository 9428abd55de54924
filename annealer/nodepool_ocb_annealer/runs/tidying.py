"""Removal of old runs: their records in ZooKeeper, except the newest ten of each noderole, and their logs here.

It costs no run anything. A noderole that may have too many is noted when a run of it has ended, and a thread looks at
all noted ones in one request. It looks at the logs as often as a fiftieth of its time allows. A failure is
retried with the next look, and has no other effect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import msgspec

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.engine.drift import CHECK
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import discard
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.runs import logs as runlogs
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

RUNS_KEPT: Final = 10
CHECKS_KEPT: Final = 2
TIDY_SECONDS: Final = 1.0  # between two looks
LOOK_SHARE: Final = 50  # the pause after a look at the logs, in multiples of the time of the look
AGES_SECONDS: Final = 3600.0  # a log may become too old though nothing runs


class Tidying:
    """Call everything on the turn thread."""

    def __init__(self, context: AnnealerContext, runs: Callable[[], set[str]]) -> None:
        self._context, self._runs = context, runs
        self._workers = WorkerQueue("tidy", 1, context.post)
        self._noted: set[str] = set()
        self._under_way = False
        self._look_at = 0.0  # the logs, not before; monotonic
        self._schedule(TIDY_SECONDS)  # leftovers of the process before this one

    def ended(self, grant: Grant, logs: bool = False) -> None:
        """A run has ended, and its record is written; ``logs``: it may have left one."""
        many = grant.record.generation > RUNS_KEPT or grant.previous_epoch is not None
        if many or grant.record.check is not None:  # else there cannot be too many
            self._noted.add(grant.vertex.name)
            self._schedule(TIDY_SECONDS)
        if logs:
            self._schedule(max(TIDY_SECONDS, self._look_at - time.monotonic()))

    def due(self) -> None:
        """The timer is due."""
        if self._under_way:
            return
        noted, self._noted = self._noted, set()
        self._under_way = True
        look = time.monotonic() >= self._look_at
        active = self._runs() if look else None
        tidy = partial(_tidy, self._context.session, self._context.settings, noted, active)
        if not self._workers.ask(tidy, self._tidied):
            self._under_way, self._noted = False, noted
            self._schedule(TIDY_SECONDS)

    def close(self) -> None:
        self._workers.close()

    def _schedule(self, after_seconds: float) -> None:
        self._context.timers.at(time.monotonic() + after_seconds, Timer(TimerKind.TIDY))

    def _tidied(self, look: TidyResult) -> None:
        self._under_way = False
        self._noted |= look.left
        if look.took_seconds is not None:
            self._look_at = time.monotonic() + LOOK_SHARE * look.took_seconds
            self._schedule(AGES_SECONDS)
        else:  # it came before the logs may be looked at, and stood in place of the timer for that
            self._schedule(max(TIDY_SECONDS, self._look_at - time.monotonic()))
        if self._noted:
            self._schedule(TIDY_SECONDS)


class TidyResult(msgspec.Struct, frozen=True):
    """The result of a look: the skipped noderoles, and the time for the logs; None without them."""

    left: set[str]
    took_seconds: float | None


def _tidy(session: Session, settings: AnnealerSettings, noted: set[str], active: set[str] | None) -> TidyResult:
    """In a worker; ``active``: the runs that go on, where the logs are looked at too."""
    took = None
    try:
        if active is not None:
            began = time.monotonic()
            runlogs.tidy(settings, active, time.time())
            took = time.monotonic() - began
        if noted:
            drop_old_runs(session, noted)
    except OcbError as error:  # another process deletes them too, or ZooKeeper is away
        log.info("the records of old runs stay until the next sweep: %s", error)
    except Exception:
        log.exception("the leftovers of old runs stay until the next sweep")
    else:
        return TidyResult(set(), took)
    return TidyResult(noted, took)


def surplus_of(runs: Collection[str]) -> list[str]:
    """The runs to delete: all but the newest ten; of checks, which may come by the hour, all but the newest two.

    >>> surplus_of(["0000000001-a10-check", "0000000002-a11", "0000000003-a12-check", "0000000004-a13-check"])
    ['0000000001-a10-check']
    """
    checks = sorted(run for run in runs if run.endswith(CHECK))
    return [*sorted(set(runs) - set(checks))[:-RUNS_KEPT], *checks[:-CHECKS_KEPT]]


def drop_old_runs(session: Session, noderoles: Collection[str]) -> None:
    """Keep the records of the newest runs of each noderole; raises the errors of session.commit()."""
    places = [paths.split_noderole(name) for name in sorted(noderoles)]
    listed = session.children_many([paths.runs(*place) for place in places])
    surplus = [
        paths.run(*place, run) for place, runs in zip(places, listed, strict=True) for run in surplus_of(runs or [])
    ]
    discard(session, surplus)
