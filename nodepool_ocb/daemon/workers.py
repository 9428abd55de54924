"""Threads for work that blocks, which never runs on the turn thread.

A ``WorkerPool`` does pieces that have names, each once at a time, and refuses work without a free thread; the
pieces write their own results. A ``WorkerQueue`` does one after the other, and brings each answer to the turn thread.
``side_by_side`` does pieces that wait for answers of ZooKeeper, and the turn waits for all of them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.telemetry.logs import failed
from nodepool_ocb.threads import SpareThreads

log = logging.getLogger(__name__)

T = TypeVar("T")


class WorkerPool:
    """Does work on threads, ``size`` pieces at a time at most; ``wake`` is called as each ends."""

    def __init__(self, name: str, size: int, wake: Callable[[], None]) -> None:
        self.size = size
        self._name, self._wake = name, wake
        self._threads = SpareThreads()
        self._busy: set[Hashable] = set()
        self._change = threading.Condition()

    def start(self, key: Hashable, work: Callable[[], None]) -> bool:
        """Begin, unless this piece is under way or no thread is free; whether it began."""
        with self._change:
            if key in self._busy or len(self._busy) >= self.size:
                return False
            self._busy.add(key)
        try:
            self._threads.begin(f"{self._name} {key}", partial(self._work, key, work))
        except RuntimeError as full:  # the machine has no room for another thread
            log.warning("%s %s: %s", self._name, key, full)
            with self._change:
                self._busy.discard(key)
            return False
        return True

    @property
    def busy(self) -> set[Hashable]:
        """The pieces under way."""
        with self._change:
            return set(self._busy)

    def wait(self, seconds: float) -> bool:
        """Wait until all has ended; whether it has."""
        with self._change:
            return self._change.wait_for(lambda: not self._busy, seconds)

    def _work(self, key: Hashable, work: Callable[[], None]) -> None:
        try:
            work()
        except Unavailable as gone:
            log.warning("%s: %s", threading.current_thread().name, gone)
        except Stale as other:  # another writer was faster: it is read again, and decided again
            metrics.STALE.inc()
            log.info("%s: %s", threading.current_thread().name, other)
        except Exception as error:  # after any error the next sweep tries again
            metrics.WORK_FAILURES.inc()
            failed(log, error, "%s failed", threading.current_thread().name)
        finally:
            with self._change:
                self._busy.discard(key)
                self._change.notify_all()
            self._wake()


def submitted(threads: ThreadPoolExecutor, work: Callable[[], None]) -> bool:
    """Whether a thread does it. Where none can be started, the pool may still do it later: exactly one of both."""
    ticket: deque[None] = deque([None])

    def redeem() -> None:
        if _taken(ticket):
            work()

    try:
        threads.submit(redeem)
    except RuntimeError as full:  # the host has no room for another thread
        log.warning("%s", full)
        return not _taken(ticket)
    return True


def _taken(ticket: deque[None]) -> bool:
    """Whether this takes the ticket; False where it is gone already."""
    with contextlib.suppress(IndexError):
        ticket.pop()
        return True
    return False


def side_by_side(threads: ThreadPoolExecutor, works: Sequence[Callable[[], T]]) -> list[T]:
    """Do these works on the threads, and wait until all have ended; gives their results in order.

    Raises the first exception of them, in their order. A work without a free thread is done by the caller.
    """
    if len(works) == 1:
        return [works[0]()]
    answers: list[Future[T]] = [Future() for _ in works]
    for work, answer in zip(works, answers, strict=True):
        piece = partial(_answer, work, answer)
        if not submitted(threads, piece):
            piece()
    for answer in answers:
        answer.exception()  # waits: none is left behind by an exception of another
    return [answer.result() for answer in answers]


def _answer(work: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:
        answer.set_exception(error)


class WorkerQueue:
    """Does work on ``size`` threads, in the order in which it was asked for; ``post`` is that of the daemon's turns."""

    def __init__(self, name: str, size: int, post: Callable[[Callable[[], None]], None]) -> None:
        self._threads = ThreadPoolExecutor(max_workers=size, thread_name_prefix=name)
        self._post = post

    def ask(self, work: Callable[[], T], then: Callable[[T], None]) -> bool:
        """Have ``then`` called on the turn thread with the result of ``work``. ``work`` answers for all that may happen to it:
        where it raises nevertheless, that is logged, and ``then`` is not called.

        False where this host has no room for the first thread: nothing is done then.
        """
        return submitted(self._threads, partial(self._work, work, then))

    def close(self) -> None:
        """Begin nothing more, without a wait for present work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def finish(self) -> None:
        """Do what was asked for already, and nothing more, without a wait for it."""
        self._threads.shutdown(wait=False)

    def _work(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        try:
            answer = work()
        except Exception as error:
            metrics.WORK_FAILURES.inc()
            failed(log, error, "%s failed", threading.current_thread().name)
        else:
            self._post(partial(then, answer))
