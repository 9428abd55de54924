"""Transactions without a wait: written records are shown at once, and refused ones are read again.

If an answer was lost, a thread finds out the fate of the transaction. Until then nothing is decided from it: only this
process knows the work that it has begun behind a claim, so it must not take its own claim for another's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from nodepool_ocb.daemon.turns import Turns
from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.errors import OcbError, OutcomeUnknown, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create
from nodepool_ocb.store.client.session import Doubt, Session, Stats
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.telemetry import metrics

log = logging.getLogger(__name__)


class Writing:
    """Call it on the turn thread."""

    def __init__(self, session: Session, cache: Cache, turns: Turns) -> None:
        self._session, self._cache, self._turns = session, cache, turns
        self._refused: dict[str, str] = {}  # name of the work → why it was refused, where that is no race
        self._doubts = WorkerQueue("doubts", 1, turns.post)

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        """Commit; ``then(refused)`` is called in a later turn, with the cache brought up to date.

        A refusal makes the cache read again all that the changes name. A lost answer is settled before ``then`` is called;
        without a thread for that, ``then`` gets OutcomeUnknown.
        """
        assert self._turns.here(), "decisions are made on the turn thread"
        if changes:
            self._cache.expect(changes)
            self._session.commit_soon(
                changes, lambda answer: self._turns.post(lambda: self._answered(changes, answer, then, what))
            )

    def _answered(
        self,
        changes: list[Change],
        answer: Stats | OcbError,
        then: Callable[[OcbError | None], None],
        what: str,
    ) -> None:
        if isinstance(answer, Doubt):
            doubt = answer
            settled = partial(self._answered, changes, then=then, what=what)
            if not self._doubts.ask(partial(self._settled, doubt), settled):
                settled(OutcomeUnknown(f"{doubt}; this host has no thread to read the result"))
        elif isinstance(answer, OcbError):
            self._cache.refused(changes)
            if isinstance(answer, Stale):
                metrics.STALE.inc()
                self._restore(answer)
            news = not isinstance(answer, Stale) and self._refused.get(what) != str(answer)
            if news:
                self._refused[what] = str(answer)
            log.log(logging.WARNING if news else logging.DEBUG, "%s: %s", what, answer)
            then(answer)
        else:
            self._refused.pop(what, None)
            self._cache.committed(changes, answer)
            then(None)

    def _settled(self, doubt: Doubt) -> Stats | OcbError:
        """On a thread of its own."""
        try:
            return self._session.resolve(doubt)
        except OcbError as refused:
            return refused

    def close(self) -> None:
        """Settle nothing more."""
        self._doubts.close()

    def _restore(self, refused: Stale) -> None:
        """The folder of a noderole's runs was deleted by hand: make it again, empty."""
        folder = refused.path.rpartition("/")[0]
        if refused.absent and folder.endswith("/runs") and refused.path.startswith(paths.NODES + "/"):
            self._session.commit_soon([Create(folder)], lambda _: None)
