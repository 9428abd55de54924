"""What old runs leave behind: their records in ZooKeeper go, but for those of the newest ten of each noderole.

It costs no run anything: a noderole that may have too many is noted when a run of it has ended, and a thread looks at all
that were noted since the last time, in one request. What fails is tried again with the next look, and harms nobody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from nodepool_ocb.claim import Hold
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model import Delete
from nodepool_ocb.store import paths
from nodepool_ocb.store.session import Session
from nodepool_ocb_annealer.agenda import Agenda

log = logging.getLogger(__name__)

RUNS_KEPT: Final = 10
TIDY_SECONDS: Final = 1.0  # between two looks
DELETIONS_AT_ONCE: Final = 400


class Site(Protocol):
    """What tidying needs of the annealer."""

    session: Session
    agenda: Agenda

    def post(self, call: Callable[[], None]) -> None: ...


class Tidying:
    """Call everything on the turn thread."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidy")
        self._noted: set[str] = set()
        self._under_way = False

    def ended(self, hold: Hold) -> None:
        """A run has ended, and its record is written."""
        if hold.record.generation > RUNS_KEPT or hold.previous_epoch is not None:  # else there cannot be more than ten
            self._noted.add(hold.vertex.name)
            self._appoint()

    def keep(self) -> None:
        """The appointment has come."""
        if self._under_way or not self._noted:
            return
        noted, self._noted = self._noted, set()
        self._under_way = True
        self._threads.submit(self._tidy, noted)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _appoint(self) -> None:
        self._site.agenda.at(time.monotonic() + TIDY_SECONDS, ("tidy", ""))

    def _tidy(self, noted: set[str]) -> None:
        """In the thread."""
        left = noted
        try:
            drop_old_runs(self._site.session, noted)
            left = set()
        except OcbError as error:  # somebody else deletes them too, or ZooKeeper is away
            log.info("records of old runs stay for now: %s", error)
        except Exception:
            log.exception("records of old runs stay for now")
        finally:
            self._site.post(lambda: self._tidied(left))

    def _tidied(self, left: set[str]) -> None:
        self._under_way = False
        self._noted |= left
        if self._noted:
            self._appoint()


def drop_old_runs(session: Session, noderoles: Collection[str]) -> None:
    """Keep the records of the newest ten runs of each noderole; raises what session.commit() raises."""
    places = [paths.split_noderole(name) for name in sorted(noderoles)]
    listed = session.children_many([paths.runs(*place) for place in places])
    surplus = [
        Delete(paths.run(*place, run), 0)
        for place, runs in zip(places, listed, strict=True)
        for run in sorted(runs or [])[:-RUNS_KEPT]
    ]
    for start in range(0, len(surplus), DELETIONS_AT_ONCE):
        session.commit(surplus[start : start + DELETIONS_AT_ONCE])
