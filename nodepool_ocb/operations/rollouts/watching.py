"""A rollout as it goes on: the views that ``rollout show --watch`` and ``rollout wait`` show."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from nodepool_ocb.errors import InError, NotFound, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.rollout.records import Rollout, RolloutState
from nodepool_ocb.views.progress import RolloutProgress, moved, of_rollout
from nodepool_ocb.views.rollouts import lines, rows
from nodepool_ocb.views.rollouts.rows import Reported, RolloutDocument, WatchLine

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

TICK_SECONDS: Final = 5.0  # annealers come and go
SHARE: Final = 4  # after a read, no read for this many times its duration: a large rollout changes very often


class RolloutView(NamedTuple):
    """A rollout at one moment; ``rollout`` is None when it is gone."""

    rollout: Rollout | None
    holder: LockOwner | None
    annealers: bool  # an annealer is running

    @property
    def over(self) -> bool:
        """True for a rollout that is over or gone."""
        return self.rollout is None or self.rollout.over

    def document(self, key: Key) -> RolloutDocument:
        """All of the rollout; raises NotFound when it is gone."""
        return rows.document(key, self._rollout(key), self.holder)

    def reported(self, key: Key) -> Reported:
        """The document with its report; raises NotFound when it is gone."""
        return rows.reported(self.document(key), self._rollout(key))

    def lines(self, key: Key) -> Iterator[tuple[tuple[str, str], WatchLine]]:
        """Everything that may change, by kind and name; raises NotFound when it is gone."""
        return rows.watched(key, self._rollout(key), self.holder)

    def moved(self, key: Key) -> list[str]:
        """A sentence about each group that has begun; raises NotFound when it is gone."""
        return moved(self._rollout(key))

    def progress(self, fail_fast: bool) -> RolloutProgress:
        """The end of the wait, as far as it is known."""
        return of_rollout(self.rollout, fail_fast)

    def _rollout(self, key: Key) -> Rollout:
        if self.rollout is None:
            raise NotFound(f"rollout {key} was deleted; see: nodepool-ocb rollout list")
        return self.rollout


class _RolloutSource:
    """One rollout, for Following: the whole is read after each change below it."""

    def __init__(self, key: Key, opened: Session, wake: Callable[[], None]) -> None:
        self._key, self._opened, self._wake = key, opened, wake
        self._connection = 0
        self._changed = False
        self._took_seconds = 0.0
        self.view = RolloutView(None, None, annealers=False)

    def load(self) -> bool:
        for path in (paths.rollout(*self._key), paths.daemons("annealer")):
            self._opened.watch(path, self._event)
        return self.sweep()

    def refresh(self) -> bool:
        if not self._changed and self._connection == self._opened.connections:
            return False
        time.sleep(min(1.0, SHARE * self._took_seconds))
        return self.sweep()

    def sweep(self) -> bool:
        from nodepool_ocb.store import rollouts
        from nodepool_ocb.store.locks import holders

        begun = time.monotonic()
        self._connection = self._opened.connections
        self._changed = False  # before the read: a change during it must be read again
        found = rollouts.read(self._opened, *self._key)
        annealers = bool(self._opened.children(paths.daemons("annealer")))
        holder = holders(self._opened, [paths.rollout_lock(*self._key)])[0] if found else None
        self.view = RolloutView(found[0] if found else None, holder, annealers)
        self._took_seconds = time.monotonic() - begun
        return True

    def _event(self, _kind: str, _path: str) -> None:
        self._changed = True
        self._wake()


def views(performer: Performer, key: Key, deadline: float | None) -> Iterator[RolloutView]:
    """The rollout as it is, then after each change and at each tick; raises TimedOut at the deadline (monotonic)."""
    made: list[_RolloutSource] = []

    def make(opened: Session, wake: Callable[[], None]) -> _RolloutSource:
        made.append(_RolloutSource(key, opened, wake))
        return made[0]

    for _ in Following(performer, deadline).changes(make, TICK_SECONDS):
        yield made[0].view


def error(key: Key, now: RolloutProgress, rollout: Rollout | None) -> OcbError | None:
    """The error with which a wait ends; None for a rollout that succeeded."""
    if rollout is None:
        return NotFound(f"rollout {key} was deleted; see: nodepool-ocb rollout list")
    if now.outcome == RolloutState.SUCCESS:
        return None
    if now.group is not None:
        return InError(f"rollout {key}: {now.sentence}: {lines.promote(str(key), rollout, now.group)}")
    assert now.outcome is not None, "an open rollout has no error"
    sentence = now.sentence if now.sentence.startswith(now.outcome) else f"{now.outcome}: {now.sentence}"
    return InError(f"rollout {key}: {sentence}{f'; {lines.advice(str(key), rollout)}' if rollout.over else ''}")
