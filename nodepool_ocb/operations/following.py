"""Following: a cache that is read again after every watch event, at intervals, and after an outage of ZooKeeper."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import TimedOut, Unavailable
from nodepool_ocb.operations.performer import Performer

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.world.cache import Cache
    from nodepool_ocb.store.world.changeset import ChangeSet

SWEEP_SECONDS: Final = 30.0  # watches are hints
OUTAGE_SECONDS: Final = 60.0  # of ZooKeeper, before a follower gives up
TOO_LONG: Final = "it took longer than the time-out, and may still happen; see: nodepool-ocb status"

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Followed(Protocol[T_co]):
    """A cache; each method gives the changes, which are false if there are none."""

    def load(self) -> T_co: ...
    def refresh(self) -> T_co: ...
    def sweep(self) -> T_co: ...


class Following:
    """A source, followed until the deadline (monotonic)."""

    def __init__(self, performer: Performer, deadline: float | None) -> None:
        self._performer = performer
        self._deadline = deadline
        self._wake = threading.Event()
        self._reconnected = threading.Event()

    def changes(
        self, make: Callable[[Session, Callable[[], None]], Followed[T]], tick_seconds: float | None = None
    ) -> Iterator[T]:
        """The content of the source, then its changes after every event; at every tick too, if one is given.

        ``make`` gets the session, and the function that wakes the follower. Raises TimedOut at the deadline, Unavailable
        after a long outage.
        """
        with self._performer.session(on_connected=self._connected) as opened:
            source = make(opened, self._wake.set)

            def load() -> T:
                opened.sync()
                return source.load()

            while (first := self._read(load)) is None:
                pass
            yield first
            swept = time.monotonic()
            while True:
                self._pause(min(swept + SWEEP_SECONDS, time.monotonic() + (tick_seconds or SWEEP_SECONDS)))
                sweep = self._reconnected.is_set() or time.monotonic() >= swept + SWEEP_SECONDS
                changed = self._read(source.sweep if sweep else source.refresh)
                swept = time.monotonic() if sweep else swept
                if changed is not None and (changed or tick_seconds):
                    yield changed

    def _pause(self, until: float) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise TimedOut(TOO_LONG)
        ends = until if self._deadline is None else min(until, self._deadline)
        self._wake.wait(max(0.0, ends - time.monotonic()))
        self._wake.clear()  # before the read that follows: a change during the read must wake us again

    def _read(self, read: Callable[[], T]) -> T | None:
        """None during an outage of ZooKeeper; raises Unavailable after ``OUTAGE_SECONDS`` of it."""
        self._reconnected.clear()
        try:
            return read()
        except Unavailable:
            self._performer.caller.note("ZooKeeper does not answer; waiting for it")
            if not self._reconnected.wait(OUTAGE_SECONDS):
                raise
            return None

    def _connected(self) -> None:
        self._reconnected.set()
        self._wake.set()


def worlds(
    performer: Performer, deadline: float | None, tick_seconds: float | None = None
) -> Iterator[tuple[World, ChangeSet]]:
    """The world as it is, then after every change and at every tick, with the changes.

    Raises TimedOut at the deadline (monotonic).
    """
    world = World()

    def make(opened: Session, wake: Callable[[], None]) -> Cache:
        from nodepool_ocb.store.world.cache import Cache

        return Cache(opened, world, wake)

    return ((world, touched) for touched in Following(performer, deadline).changes(make, tick_seconds))
