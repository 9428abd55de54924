"""A TCP proxy with a long way: each byte arrives a constant time after it was sent, in both directions."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Final

CHUNK_BYTES: Final = 65536


class DelayingProxy:
    """Forwards connections on ``port`` of ``host`` to the same host's ``target``; a byte is ``seconds`` on its way."""

    def __init__(self, host: str, target: int, seconds: float) -> None:
        self._host, self._target, self._seconds = host, target, seconds
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._sent: list[float] = []  # when something came from a client
        self._begin(self._accept)

    def flights(self) -> int:
        """The round trips since the last question: the times that a client sent something, each a round trip after another."""
        taken, self._sent = self._sent, []
        count, since = 0, float("-inf")
        for moment in taken:
            if moment - since > 1.8 * self._seconds:
                count, since = count + 1, moment
        return count

    def close(self) -> None:
        """Close all connections; their threads end."""
        for each in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self) -> DelayingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._host, self._target))
            except OSError:
                return
            self._ends += [client, server]
            for source, sink in ((client, server), (server, client)):
                under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                self._begin(self._take, source, under_way, source is client)
                self._begin(self._deliver, sink, under_way)

    def _take(self, source: socket.socket, under_way: SimpleQueue[tuple[float, bytes]], of_client: bool) -> None:
        data = b"."
        while data:
            try:
                data = source.recv(CHUNK_BYTES)
            except OSError:
                data = b""
            now = time.monotonic()
            under_way.put((now + self._seconds, data))
            if of_client and data:
                self._sent.append(now)

    @staticmethod
    def _deliver(sink: socket.socket, under_way: SimpleQueue[tuple[float, bytes]]) -> None:
        while True:
            due, data = under_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            with contextlib.suppress(OSError):
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    @staticmethod
    def _begin(work: Callable[..., None], *words: object) -> None:
        threading.Thread(target=work, args=words, name="delays", daemon=True).start()
