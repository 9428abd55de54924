"""The events of a cache on their way to its thread, and reads that the connection's thread sends at once for them.

A cache that reads ahead is woken when the answer is there, not by the event: its thread need not wake first in order to
ask. One such read is under way at a time. While the cache itself reads (``begin``, ``end``), none is sent. So the answers
come in the order of the questions, and each is shown before a later one.

A path with a write of ours under way is not read: the answer to that write shows it. A cache that reads many paths at
short intervals *rests* between two reads: others write them, and one read of all costs less than many.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nodepool_ocb.errors import OcbError
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import BATCH
from nodepool_ocb.store.client.session import Session

CALM_PATHS: Final = 24.0  # read lately, of which half is forgotten in each HALF_SECONDS: more mean a rest
HALF_SECONDS: Final = 0.01
REST_SECONDS: Final = 0.01


class _Read:
    """A read that was sent; ``get`` gives its answer."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.get: Callable[[], list[Znode | None]] = list


class Arrivals:
    """``add`` and ``over`` are called on the connection's thread, all others on the cache's.

    ``expected``: how many writes of ours are under way on a path.
    """

    def __init__(self, session: Session, wake: Callable[[], None], ahead: bool) -> None:
        self.expected: dict[str, int] = {}
        self._session, self._wake, self._ahead = session, wake, ahead
        self._lock = threading.RLock()  # submitting a read may call us back
        self.events: deque[str] = deque()  # that are not read ahead
        self._fresh: list[str] = []  # that may be
        self._under_way: _Read | None = None
        self._answered: deque[_Read] = deque()
        self._reading = False  # the cache does
        self._rest_until = 0.0  # monotonic
        self._recent, self._counted_at = 0.0, 0.0

    # -- the connection's thread --

    def add(self, path: str, alone: bool) -> None:
        """An event; ``alone``: its path must be read by the cache, in an order of its own."""
        if alone or not self._ahead:
            self.events.append(path)
            if path not in self.expected:
                self._wake()
        else:
            self._fresh.append(path)

    def over(self) -> None:
        """No more events came at once: read the new paths, or wake."""
        if not self._fresh:
            return
        with self._lock:
            if self._reading or self._under_way is not None or time.monotonic() < self._rest_until:
                return  # the cache looks again when that is over
            if len(self._fresh) > BATCH:
                self._wake()
                return
            fresh = dict.fromkeys(self._fresh)
            own = {path for path in fresh if path in self.expected}
            self.events.extend(own)
            if any(path not in self.expected for path in own):
                self._wake()  # the cache took the answer to our write meanwhile, and does not look again by itself
            self._fresh.clear()
            if paths := [path for path in fresh if path not in own]:
                self._under_way = read = _Read(paths)
                read.get = self._session.send_read(paths, lambda: self._arrived(read))

    def _arrived(self, read: _Read) -> None:
        with self._lock:
            self._answered.append(read)
            self._under_way = None
        self._wake()

    # -- the cache's thread --

    def expect(self, paths: Iterable[str]) -> None:
        """Writes of ours are about to be sent."""
        with self._lock:  # no read may be sent for these after them
            for path in paths:
                self.expected[path] = self.expected.get(path, 0) + 1

    def begin(self) -> None:
        """The cache reads: no read is sent ahead, and ``take`` gives all events."""
        with self._lock:
            self._reading = True

    def end(self, count: int) -> None:
        """It has read so many paths."""
        with self._lock:
            self._reading = False
        self._count(count)
        if self.due:
            self._wake()

    @property
    def due(self) -> bool:
        """Whether there are events that the cache must read."""
        return bool(self._fresh) and time.monotonic() >= self._rest_until

    def rest(self) -> float:
        """Seconds until the end of the rest; 0 without one. The events of a rest that is over wake the cache."""
        with self._lock:
            seconds = self._rest_until - time.monotonic()
            if seconds > 0.0:
                return seconds
            if self._rest_until and self._fresh and self._under_way is None:
                self._wake()
            self._rest_until = 0.0  # later events are read ahead again
            return 0.0

    def take(self) -> list[str]:
        """The events since the last call. Those that may be read ahead are given while the cache reads."""
        events = self.events
        taken = [events.popleft() for _ in range(len(events))]
        if self._reading and self._fresh:
            with self._lock:
                count = len(self._fresh)  # ``add`` takes no lock
                taken += self._fresh[:count]
                del self._fresh[:count]
        return taken

    def answers(self) -> list[tuple[str, Znode | None]]:
        """The znodes that were read ahead, in the order of the reads; the paths of a read that failed are events again."""
        found: list[tuple[str, Znode | None]] = []
        while self._answered:
            with self._lock:
                read = self._answered.popleft()
            try:
                found += zip(read.paths, read.get(), strict=True)
            except OcbError:
                self.events.extend(read.paths)
        self._count(len(found))
        return found

    def _count(self, paths: int) -> None:
        """Rest after the read of so many, if there were many lately."""
        if not (paths and self._ahead):
            return
        now = time.monotonic()
        self._recent = paths + self._recent * 0.5 ** ((now - self._counted_at) / HALF_SECONDS)
        self._counted_at = now
        self._rest_until = now + REST_SECONDS if self._recent > CALM_PATHS else 0.0
