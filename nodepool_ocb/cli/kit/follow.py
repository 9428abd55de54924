"""What is in ZooKeeper, as it changes: woken by watches, read anew now and then, and patient while ZooKeeper is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.errors import TimedOut, Unavailable

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

SWEEP_SECONDS: Final = 30.0  # watches are hints
OUTAGE_SECONDS: Final = 60.0  # that ZooKeeper may be gone while we wait

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Source(Protocol[T_co]):
    """A cache; each method gives what has changed, and that is false where nothing has."""

    def load(self) -> T_co: ...
    def refresh(self) -> T_co: ...
    def sweep(self) -> T_co: ...


class Following:
    """A source, followed until the deadline (monotonic)."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline
        self._wake = threading.Event()
        self._reconnected = threading.Event()

    def changes(
        self, make: Callable[[Session, Callable[[], None]], Source[T]], tick_seconds: float | None = None
    ) -> Iterator[T]:
        """What the source has at once, and what changed after every change; at every tick too, where one is given.

        ``make`` gets the session, and what wakes us. Raises TimedOut at the deadline, Unavailable when ZooKeeper stays
        away.
        """
        with session.session(on_connected=self._connected) as opened:
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
            raise TimedOut("it took longer than the time-out; it may still happen")
        ends = until if self._deadline is None else min(until, self._deadline)
        self._wake.wait(max(0.0, ends - time.monotonic()))
        self._wake.clear()  # before what follows reads: a change during the read must wake us again

    def _read(self, read: Callable[[], T]) -> T | None:
        """None while ZooKeeper is away; raises Unavailable when it stays away."""
        self._reconnected.clear()
        try:
            return read()
        except Unavailable:
            output.say("ZooKeeper does not answer; waiting for it")
            if not self._reconnected.wait(OUTAGE_SECONDS):
                raise
            return None

    def _connected(self) -> None:
        self._reconnected.set()
        self._wake.set()
