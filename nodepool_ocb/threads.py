"""Daemon threads that stay for some seconds after their work: the start of a thread costs more than many short works.

They end with the process, also in the middle of a call that hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

SPARE_SECONDS: Final = 5.0  # that a thread without work stays

_Work: TypeAlias = tuple[str, Callable[[], None]]


class SpareThreads:
    """Each work gets a thread at once: one that has no work, or a new one. The owner bounds their number; thread-safe."""

    def __init__(self) -> None:
        self._works: SimpleQueue[_Work] = SimpleQueue()
        self._guard = threading.Lock()
        self._spare = 0  # threads that wait, without those that a work in the queue will get

    @property
    def spare(self) -> int:
        """The number of threads without work."""
        with self._guard:
            return self._spare

    def begin(self, name: str, work: Callable[[], None]) -> None:
        """Do a work, which raises nothing, on a thread with this name. Raises RuntimeError where this host starts no thread."""
        with self._guard:
            if self._spare:
                self._spare -= 1
                self._works.put((name, work))
                return
        threading.Thread(target=self._live, args=((name, work),), name=name, daemon=True).start()

    def _live(self, first: _Work) -> None:
        work: _Work | None = first
        while work is not None:
            name, do = work
            threading.current_thread().name = name
            do()
            del do
            work = self._next()

    def _next(self) -> _Work | None:
        """The next work; None if there was none for a while."""
        with self._guard:
            self._spare += 1
        while True:
            try:
                return self._works.get(timeout=SPARE_SECONDS)
            except Empty:
                with self._guard:
                    if self._spare:
                        self._spare -= 1
                        return None
            # a work was promised to this thread; if another thread takes it, this one is the spare thread instead
