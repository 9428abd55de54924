"""The connections to a daemon's pages: their greatest number, and the time that a request may take to arrive.

A connection costs a thread and a descriptor, which the daemon needs for its own work. So at most ``CONNECTIONS`` are
open, and the last descriptors of the process are never used here. If all are taken, the connection that has waited
longest for its request is cut for the new one. So a client that sends its request without delay is served during a
flood.
"""

from __future__ import annotations

import contextlib
import io
import logging
import resource
import socket
import threading
import time
from typing import Any, Final

log = logging.getLogger(__name__)

CONNECTIONS: Final = 48  # at once
REQUEST_SECONDS: Final = 5.0  # from the connection to the end of the request
ANSWER_SECONDS: Final = 5.0  # that a client may take to read an answer
SPARE_DESCRIPTORS: Final = 64  # that are left to the daemon's work; an eighth, where it may have few
PAUSE_SECONDS: Final = 0.005  # before each connection while all are taken: a flood costs little CPU
HANDOVER_SECONDS: Final = 0.2  # until a connection that was cut is closed
REPORT_SECONDS: Final = 60.0  # from one line of the log to the next


class Connections:
    """The open connections. The accepting thread calls ``admit``; any thread may call the rest."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, None] = {}  # for their request; the oldest first
        self._unsaid = 0
        self._said_at: float | None = None  # monotonic

    def admit(self, connection: socket.socket) -> bool:
        """Whether it may be served; ``left`` is then to be called at its end."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if 0 <= limit <= connection.fileno() + min(SPARE_DESCRIPTORS, limit // 8):  # the number is the lowest free one
            self.refused("the process has few descriptors left")
            return False
        if not self._free.acquire(blocking=False):
            self.refused(f"{CONNECTIONS} connections are open, the most at once")
            time.sleep(PAUSE_SECONDS)
            if not (self._cut_one() and self._free.acquire(timeout=HANDOVER_SECONDS)):
                return False
        with self._lock:
            self._waiting[connection] = None
        return True

    def secured(self, before: socket.socket, after: socket.socket) -> None:
        """A connection goes on over TLS, as another object in the same place of the order."""
        with self._lock:
            if before in self._waiting:
                self._waiting = {after if each is before else each: None for each in self._waiting}

    def asked(self, connection: socket.socket) -> None:
        """The request of this connection has arrived: it is not cut for another connection."""
        with self._lock:
            self._waiting.pop(connection, None)

    def left(self, connection: socket.socket) -> None:
        """Note that a connection was served, and closes next."""
        self.asked(connection)
        self._free.release()

    def refused(self, reason: str, error: BaseException | None = None) -> None:
        """Log that a connection was refused, cut or failed: the first one immediately, then one line a minute for all."""
        now = time.monotonic()
        with self._lock:
            self._unsaid += 1
            if self._said_at is not None and now < self._said_at + REPORT_SECONDS:
                return
            count, self._unsaid, self._said_at = self._unsaid, 0, now
        log.warning("pages: %d connections were refused, cut or failed; of the last: %s", count, reason, exc_info=error)

    def _cut_one(self) -> bool:
        """Cut the connection that has waited longest for its request; False where none waits for one."""
        with self._lock:
            if not self._waiting:
                return False
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            with contextlib.suppress(OSError):
                # its thread reads the end, and closes it; that of SSLSocket would take the state of TLS from under it
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        return True


class Request(io.RawIOBase):
    """The bytes that a client sends; raises TimeoutError where the whole does not come in time, however it is cut into pieces."""

    def __init__(self, connection: socket.socket, ends: float) -> None:
        """``ends``: when the whole must be there (monotonic)."""
        self._connection = connection
        self._ends = ends

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        """As of any file."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        self._connection.settimeout(left)
        return self._connection.recv_into(into)


class Answer(io.BufferedIOBase):
    """The bytes that a client takes; raises TimeoutError where it does not take the whole in time, also over TLS."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ends: float | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        """As of any file."""
        self._ends = self._ends or time.monotonic() + ANSWER_SECONDS
        rest = memoryview(data).cast("B")
        while rest:
            left = self._ends - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer was not taken in time")
            self._connection.settimeout(left)
            rest = rest[self._connection.send(rest) :]
        return len(data)
