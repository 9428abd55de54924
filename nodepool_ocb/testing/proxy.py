"""A TCP proxy that a test breaks on purpose: cut, refuse, swallow the answers of the server, or hold everything back."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType


class Proxy:
    """Forwards connections on ``ports`` (127.0.0.1) to ``targets``, ports on 127.0.0.1, until it is told otherwise."""

    def __init__(self, *targets: int) -> None:
        self._targets = {socket.create_server(("127.0.0.1", 0)): target for target in targets}
        self.ports: tuple[int, ...] = tuple(listener.getsockname()[1] for listener in self._targets)
        self._pairs: dict[socket.socket, socket.socket] = {}  # each end to its other end
        self._servers: set[socket.socket] = set()  # the ends that face the server
        self._lock = threading.RLock()
        self._refuse = self._deaf = self._mute = self._closing = False
        self._swallowed = threading.Event()
        self._mark = b""  # from the request with it on, answers are swallowed
        self._selector = selectors.DefaultSelector()
        for listener in self._targets:
            self._selector.register(listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._forward, name="proxy", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The first, where there is but one."""
        return self.ports[0]

    @property
    def hosts(self) -> str:
        """The connection string."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def cut(self) -> None:
        """Close every connection, and refuse new ones until heal()."""
        with self._lock:
            self._refuse = True
            for end in list(self._pairs):
                self._drop(end)

    def drop_answers(self) -> threading.Event:
        """Swallow the bytes of the server from now on; the event is set when some were swallowed."""
        with self._lock:
            self._deaf = True
            self._swallowed = threading.Event()
            return self._swallowed

    def drop_answers_to(self, mark: bytes) -> threading.Event:
        """As ``drop_answers``, from the next request on that contains ``mark``."""
        with self._lock:
            self._mark = mark
            self._swallowed = threading.Event()
            return self._swallowed

    def drop_requests(self) -> threading.Event:
        """Swallow the bytes of clients from now on; the event is set when some were swallowed."""
        with self._lock:
            self._mute = True
            self._swallowed = threading.Event()
            return self._swallowed

    def heal(self) -> None:
        """Forward again. Connections that lost something are closed first, as TCP would."""
        with self._lock:
            if self._deaf or self._mute:
                for end in list(self._pairs):
                    self._drop(end)
            self._refuse = self._deaf = self._mute = False
            self._mark = b""

    def close(self) -> None:
        """Close everything and end the thread."""
        self.cut()
        self._closing = True
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            pass  # wakes the thread
        self._thread.join(5.0)
        self._selector.close()
        for listener in self._targets:
            listener.close()

    def _forward(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(1.0):
                with self._lock:
                    if not isinstance(key.fileobj, socket.socket):
                        continue
                    if key.fileobj in self._targets:
                        self._accept(key.fileobj)
                    elif key.fileobj in self._pairs:
                        self._pass_on(key.fileobj)

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        if self._refuse:
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._targets[listener]), 5.0)
        except OSError:
            client.close()
            return
        self._servers.add(server)
        self._pairs[client], self._pairs[server] = server, client
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        try:
            data = end.recv(1 << 18)
            if self._mark and end not in self._servers and self._mark in data:
                self._deaf = True
            if data and (self._deaf if end in self._servers else self._mute):
                self._swallowed.set()
                return
            if data:
                self._pairs[end].sendall(data)
                return
        except OSError:
            pass
        self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        other = self._pairs.pop(end, None)
        if other is None:
            return
        self._pairs.pop(other, None)
        for side in (end, other):
            self._servers.discard(side)
            self._selector.unregister(side)
            side.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
