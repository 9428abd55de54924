"""Daemon threads that stay for some seconds after their work: the start of a thread costs more than many short works.

They end with the process, also in the middle of a call that hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

SPARE_SECONDS: Final = 5.0  # that a thread without work stays

_Work: TypeAlias = tuple[str, Callable[[], None]]


class _Seat:
    """A thread without work waits here; its lock is free once the seat has a work."""

    __slots__ = ("filled", "work")

    def __init__(self) -> None:
        self.filled = threading.Lock()
        self.filled.acquire()
        self.work: _Work | None = None


class SpareThreads:
    """Each work gets a thread at once: one that has no work, or a new one. The owner bounds their number; thread-safe.

    The thread that became free last works first, so the others can end. Each waits at a lock of its own: a shared
    ``SimpleQueue`` of CPython 3.11 lets a thread wait for ever if another takes its work as its time runs out.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._seats: list[_Seat] = []  # of the threads that wait; the last one became free last

    @property
    def spare(self) -> int:
        """The number of threads without work."""
        with self._guard:
            return len(self._seats)

    def begin(self, name: str, work: Callable[[], None]) -> None:
        """Do a work, which raises nothing, on a thread with this name. Raises RuntimeError where this host starts no thread."""
        with self._guard:
            if self._seats:
                seat = self._seats.pop()
                seat.work = (name, work)
                seat.filled.release()
                return
        threading.Thread(target=self._live, args=((name, work),), name=name, daemon=True).start()

    def _live(self, first: _Work) -> None:
        work: _Work | None = first
        while work is not None:
            name, do = work
            threading.current_thread().name = name
            do()
            del do, work
            work = self._next()

    def _next(self) -> _Work | None:
        """The next work; None if there was none for a while."""
        seat = _Seat()
        with self._guard:
            self._seats.append(seat)
        if not seat.filled.acquire(timeout=SPARE_SECONDS):
            with self._guard:
                if seat.work is None:
                    self._seats.remove(seat)
        return seat.work
