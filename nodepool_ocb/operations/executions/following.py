"""An execution as it goes on: a status now, after each change, and at each tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Generic

from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.executions.watched import ExecutionMoment, S, Watched
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.performer import AnyPerformer, Performer
from nodepool_ocb.operations.polling import polled
from nodepool_ocb.operations.reads.executions import AnnealerRuns

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

SHARE: Final = 4  # after a read, no read for this many times its duration: a large execution changes very often


def moments(
    performer: AnyPerformer, watched: Watched[S], key: Key, deadline: float | None
) -> Iterator[ExecutionMoment[S]]:
    """The execution as it is, then after each change and at each tick; raises TimedOut at the deadline (monotonic)."""
    if not isinstance(performer, Performer):
        return polled(performer, lambda: watched.look(key), deadline)
    direct = performer

    def make(opened: Session, wake: Callable[[], None]) -> _ExecutionSource[S]:
        return _ExecutionSource(direct, watched, key, opened, wake)

    return Following(direct, deadline).changes(make, watched.tick_seconds)


class _ExecutionSource(Generic[S]):
    """One execution, for Following: the whole is read after each change."""

    def __init__(
        self, performer: Performer, watched: Watched[S], key: Key, opened: Session, wake: Callable[[], None]
    ) -> None:
        self._performer, self._watched, self._key, self._opened, self._wake = performer, watched, key, opened, wake
        self._connection = 0
        self._changed = False
        self._took_seconds = 0.0
        self._last: ExecutionMoment[S] = ExecutionMoment(None, annealers=False)

    def load(self) -> ExecutionMoment[S]:
        for path in (self._watched.kind.path(*self._key), paths.daemons("annealer")):
            self._opened.watch(path, self._event)
        return self.sweep()

    def refresh(self) -> ExecutionMoment[S]:
        if not self._watched.every_tick and not self._changed and self._connection == self._opened.connections:
            return self._last
        time.sleep(min(self._watched.rest_seconds, SHARE * self._took_seconds))
        return self.sweep()

    def sweep(self) -> ExecutionMoment[S]:
        begun = time.monotonic()
        self._connection = self._opened.connections
        self._changed = False  # before the read: a change during it must be read again
        found = self._performer.read(self._watched.read(self._key), self._opened)
        annealers = self._performer.read(iter(AnnealerRuns()), self._opened)
        self._last = ExecutionMoment(found, annealers)
        self._took_seconds = time.monotonic() - begun
        return self._last

    def _event(self, _kind: str, _path: str) -> None:
        self._changed = True
        self._wake()
