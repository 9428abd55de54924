"""Many clients of event streams on one thread: most read at once, some take nothing after the head of the answer."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

_ZXID: Final = re.compile(rb'data: \{"zxid":([0-9]+)')
SMALL_BUFFER: Final = 4096  # of the system, for a client that takes nothing
BEGIN_SECONDS: Final = 60.0


class EventCrowd:
    """``reading`` clients of ``path``, and ``stuck`` ones of ``stuck_path``; a context manager.

    Raises TimeoutError if they have not all begun within a minute.
    """

    def __init__(self, port: int, token: str, *, reading: int, stuck: int, path: str, stuck_path: str) -> None:
        self._port, self._token = port, token
        self._reading, self._stuck = reading, stuck
        self._path, self._stuck_path = path, stuck_path
        self._lock = threading.Lock()
        self._seen: defaultdict[int, list[float]] = defaultdict(list)
        self._begun = threading.Semaphore(0)
        self._sockets: list[socket.socket] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)
        self.ended = 0  # readers with a stream that ended

    def __enter__(self) -> Self:
        for _ in range(self._stuck):
            self._sockets.append(self._silent())
        self._thread.start()
        deadline = time.monotonic() + BEGIN_SECONDS
        for _ in range(self._reading):
            if not self._begun.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self._close()
                raise TimeoutError("not all streams have begun")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def seen(self, zxid: int) -> list[float]:
        """The times (monotonic) at which readers saw a transaction."""
        with self._lock:
            return list(self._seen[zxid])

    def _close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        for each in self._sockets:
            each.close()

    def _request(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n\r\n".encode()

    def _silent(self) -> socket.socket:
        """A client that reads the head of the answer, and nothing more."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        made.settimeout(BEGIN_SECONDS)
        made.connect(("127.0.0.1", self._port))
        made.sendall(self._request(self._stuck_path))
        if not made.recv(64).startswith(b"HTTP/1.1 200 "):
            raise TimeoutError("a stream has not begun")
        return made

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        tasks = [self._loop.create_task(self._read()) for _ in range(self._reading)]
        self._loop.run_forever()
        for each in tasks:
            each.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(self._request(self._path))
            while line := await reader.readline():
                now = time.monotonic()
                if line == b"event: begin\n":
                    self._begun.release()
                elif found := _ZXID.match(line):
                    with self._lock:
                        self._seen[int(found[1])].append(now)
            self.ended += 1
        finally:
            writer.close()


def latency(crowd: EventCrowd, zxid: int, began: float, readers: int, seconds: float) -> list[float]:
    """The same for one write."""
    return latencies(crowd, {zxid: began}, readers, seconds)


def latencies(crowd: EventCrowd, written: Mapping[int, float], readers: int, seconds: float) -> list[float]:
    """The seconds from each write to each reader; raises TimeoutError if a reader has not seen one in time."""
    deadline = time.monotonic() + seconds
    while any(len(crowd.seen(zxid)) < readers for zxid in written):
        if time.monotonic() > deadline:
            raise TimeoutError("a reader has not seen a change in time")
        time.sleep(0.02)
    return [at - began for zxid, began in written.items() for at in crowd.seen(zxid)]
