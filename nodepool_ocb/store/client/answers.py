"""Replies to come: one for a thread that waits, one for a function; both lighter than kazoo's AsyncResult."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionLoss

log = logging.getLogger(__name__)


class NotSent(ConnectionLoss):  # type: ignore[misc]
    """There was no connection: the request never left this process."""


class PendingAnswer:
    """The answer for a thread that waits: a lock that the connection's thread releases. It is cheaper than an Event."""

    __slots__ = ("_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Any = None

    def set(self, value: Any) -> None:
        self._value = value
        self._lock.release()

    set_exception = set

    def get(self, timeout_seconds: float) -> Any:
        """The reply, or the exception as a value; TimeoutError when neither came."""
        if not self._lock.acquire(timeout=timeout_seconds):
            return TimeoutError(f"no answer within {timeout_seconds:g} s")
        return self._value


class Completion:
    """The answer for a function. The connection's thread calls it, so it must return without waiting."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[Any], object]) -> None:
        self._done = done

    def set(self, value: Any) -> None:
        try:
            self._done(value)
        except Exception:
            log.exception("a completion failed")  # and must not take the connection down

    set_exception = set
