"""Taking connections from the socket of the API: at most so many, and room for a new one during a flood.

If all are taken, the connection that has waited longest is cut for the new one, at most one each ``PAUSE_SECONDS``. A connection
waits until its request has arrived, with the body, and the holder of its token is known. Until then, others wait in the queue of
the kernel. So a client that sends its request without delay is served, however many clients say nothing or have no token.
All methods are for the loop of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from nodepool_ocb.telemetry import metrics

FIRST_SECONDS: Final = 10.0  # until the first byte, and then until TLS has begun
PAUSE_SECONDS: Final = 0.001
HANDSHAKE: Final = b"\x16"  # the first byte of TLS
WANTS_TLS: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 47\r\n\r\n"
    b"this port speaks TLS; begin the URL with https\n"
)
SHORTAGE_SECONDS: Final = 0.2  # before the next connection, if the process has no descriptor for it


class OpenConnections:
    """The connections, by their sockets."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[socket.socket] = set()
        self._waiting: dict[socket.socket, None] = {}  # the oldest first

    @property
    def full(self) -> bool:
        return len(self._open) >= self._most

    def accepted(self, connection: socket.socket) -> None:
        """Note a new connection, which waits."""
        self._open.add(connection)
        self.waits(connection)
        metrics.API_CONNECTIONS.set(len(self._open))

    def waits(self, connection: socket.socket) -> None:
        """It may be cut: no request of it is under way."""
        if connection in self._open:
            self._waiting.setdefault(connection)

    def asked(self, connection: socket.socket) -> None:
        """The head of a request has come; it may be cut, but after all others that wait now."""
        self._waiting.pop(connection, None)
        self.waits(connection)

    def served(self, connection: socket.socket) -> None:
        """Its request has arrived, and the holder of the token is known: it is not cut."""
        self._waiting.pop(connection, None)

    def left(self, connection: socket.socket) -> None:
        """It is closed."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        metrics.API_CONNECTIONS.set(len(self._open))

    def cut_oldest(self) -> bool:
        """Cut the connection that has waited longest; False where none waits."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        self.left(oldest)
        with contextlib.suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)  # its transport reads the end, and closes it
        return True


class Acceptor:
    """In place of the server of asyncio, for uvicorn; ``made`` gives a protocol for a connection."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        connections: OpenConnections,
        made: Callable[[socket.socket], asyncio.Protocol],
    ) -> None:
        self._listener, self._context = listener, context
        self._connections, self._made = connections, made
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[None]] = set()
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        """Take no more."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Return when no connection is about to begin."""
        await asyncio.gather(self._accepting, *self._beginning, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(SHORTAGE_SECONDS)
                continue
            if self._connections.full and not await self._room():
                connection.close()
                continue
            self._connections.accepted(connection)
            beginning = self._loop.create_task(self._begin(connection))
            self._beginning.add(beginning)
            beginning.add_done_callback(self._beginning.discard)

    async def _room(self) -> bool:
        metrics.API_REFUSED_CONNECTIONS.inc()
        await asyncio.sleep(PAUSE_SECONDS)
        return not self._connections.full or self._connections.cut_oldest()

    async def _begin(self, connection: socket.socket) -> None:
        """Serve it from its first byte on: a protocol costs some memory, and the buffers of TLS 256 KiB."""
        options: dict[str, Any] = {}
        if self._context is not None:
            options = {"ssl": self._context, "ssl_handshake_timeout": FIRST_SECONDS}
        try:
            if self._speaks(await self._first(connection), connection):
                await self._loop.connect_accepted_socket(lambda: self._made(connection), connection, **options)
                return
        except (OSError, asyncio.CancelledError):  # the errors of TLS, and TimeoutError, are OSErrors
            pass
        self._connections.left(connection)
        connection.close()

    async def _first(self, connection: socket.socket) -> bytes:
        """The first byte, which stays to be read; empty at the end. Raises OSError."""
        readable = asyncio.Event()
        self._loop.add_reader(connection.fileno(), readable.set)
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                await readable.wait()
        finally:
            self._loop.remove_reader(connection.fileno())
        return connection.recv(1, socket.MSG_PEEK)

    def _speaks(self, first: bytes, connection: socket.socket) -> bool:
        """Whether the client speaks as this port does; one that speaks plain HTTP to TLS is told so."""
        if self._context is None or not first or first == HANDSHAKE:
            return bool(first)
        connection.send(WANTS_TLS)
        return False


class ListeningLoop(asyncio.SelectorEventLoop):
    """A loop whose servers are acceptors."""

    def __init__(self, connections: OpenConnections) -> None:
        super().__init__()
        self._connections = connections

    async def create_server(self, factory: Any, *_: Any, **options: Any) -> Any:  # type: ignore[override]
        """As of asyncio, for the socket ``sock``."""

        def made(connection: socket.socket) -> Any:
            protocol = factory()
            protocol.belongs(connection, self._connections)
            return protocol

        return Acceptor(options["sock"], options.get("ssl"), self._connections, made)
