"""Clients that take connections and send no request, or send it byte by byte, and come back when they are cut."""

from __future__ import annotations

import contextlib
import errno
import resource
import selectors
import socket
import threading
import time
from types import TracebackType
from typing import Final

DRIP_SECONDS: Final = 1.0
BURST: Final = 200  # connections that come back at a time


class Flood:
    """``idle`` connections that say nothing and ``dripping`` ones; a context manager."""

    def __init__(self, address: str, idle: int, dripping: int) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._count, self._dripping = idle + dripping, dripping
        self._selector = selectors.DefaultSelector()
        self._open: dict[socket.socket, bool] = {}  # whether it drips
        self._over = threading.Event()
        self._all = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flood")
        self.connected = 0  # so far

    def __enter__(self) -> Flood:
        soft, hard = self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, self._count + 1000)), hard))
        self._thread.start()
        assert self._all.wait(60.0), "not all clients could be begun"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(30.0)
        for each in self._open:
            each.close()
        self._selector.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def _run(self) -> None:
        drips = [number < self._dripping for number in range(self._count)]
        dripped = time.monotonic()
        while not self._over.is_set():
            for drip in drips[:BURST]:
                self._connect(drip)
            del drips[:BURST]
            if not drips:
                self._all.set()
            drips += self._cut()
            if time.monotonic() > dripped + DRIP_SECONDS:
                dripped = time.monotonic()
                for client, drip in self._open.items():
                    if drip:
                        with contextlib.suppress(OSError):
                            client.send(b"G")
            self._over.wait(0.02)

    def _connect(self, drip: bool) -> None:
        client = socket.socket()
        client.setblocking(False)
        assert client.connect_ex(self._address) in (0, errno.EINPROGRESS)
        self._selector.register(client, selectors.EVENT_READ)
        self._open[client] = drip
        self.connected += 1

    def _cut(self) -> list[bool]:
        """Those that the server cut meanwhile; gives of each whether it drips."""
        found = []
        for key, _ in self._selector.select(0):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            self._selector.unregister(client)
            found.append(self._open.pop(client))
            client.close()
        return found
