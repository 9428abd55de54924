"""A small application on the listener of the API, and clients with raw sockets."""

from __future__ import annotations

import asyncio
import select
import socket
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.api.actor import KNOWN
from nodepool_ocb.api.listener import Listener
from nodepool_ocb.config import ApiSettings

SECONDS: Final = 20.0
OK: Final = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
LARGE_BYTES: Final = 32 << 20  # more than the buffers of a connection hold
LARGE: Final = {
    "type": "http.response.start", "status": 200, "headers": [(b"content-length", str(LARGE_BYTES).encode())]
}  # fmt: skip
PIECE: Final = bytes(1 << 20)


class SmallServer:
    """At most two connections. ``/known`` tells that the caller is known, ``/held`` gives no answer, ``/large`` much.

    ``seen`` has the events, and ``protocols`` the protocol of each request.
    """

    def __init__(self, cert: tuple[Path, Path] | None = None) -> None:
        self.seen: list[str] = []
        self.protocols: list[Any] = []
        self.clients: list[socket.socket] = []
        secure = {} if cert is None else {"cert": str(cert[0]), "key": str(cert[1])}
        self.listener = Listener(self, ApiSettings(listen="127.0.0.1:0", connections=2, **secure))
        self.listener.open()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if "known" in scope["path"]:
            scope["state"][KNOWN]()
        self.protocols.append(scope["state"][KNOWN].__self__)
        self.seen.append("head")
        if "held" in scope["path"]:
            while (message := await receive())["type"] != "http.disconnect":
                if not message["more_body"]:
                    self.seen.append("body")
            return
        if "large" in scope["path"]:
            await send(LARGE)
            for left in range(LARGE_BYTES // len(PIECE), 0, -1):
                await send({"type": "http.response.body", "body": PIECE, "more_body": left > 1})
            return
        await send(OK)
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"ok"})

    def client(self) -> socket.socket:
        host, port = self.listener.address.partition("//")[2].split(":")
        made = socket.create_connection((host, int(port)), SECONDS)
        self.clients.append(made)
        return made

    def close(self) -> None:
        for each in self.clients:
            each.close()
        self.listener.close()


def answered(client: socket.socket) -> bool:
    """Whether it gets an answer before its connection ends."""
    got = b""
    while not got.endswith(b"ok") and (part := client.recv(65536)):
        got += part
    return got.startswith(b"HTTP/1.1 200 ")


def cut(client: socket.socket) -> bool:
    """Whether the server has closed it; it has no answer to read."""
    return bool(select.select([client], [], [], 0.0)[0])
