"""The pages that a daemon serves over HTTP: /metrics, /health/live and /health/ready.

A health page answers 200 and ``ok``, or 503 and one sentence that says what is wrong. The pages only read;
they have no password, so they belong on a loopback or a management address (docs/security.md).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from nodepool_ocb.errors import Invalid

#: What is wrong, in one sentence; None when all is well.
Trouble: TypeAlias = Callable[[], str | None]

TIMEOUT_SECONDS: Final = 5.0  # a client that says nothing for this long is dropped


class Pages:
    """Serves on ``listen`` ("HOST:PORT"; port 0 takes a free one) from a thread of its own, until closed.

    Raises Invalid where the address cannot be used.
    """

    def __init__(self, listen: str, health: Mapping[str, Trouble]) -> None:
        host, colon, port = listen.rpartition(":")
        if not (colon and port.isdigit()):
            raise Invalid(f"http.listen: {listen!r} is not HOST:PORT, as in 127.0.0.1:9470")
        try:
            self._server = _server(host.strip("[]"), int(port))(partial(_Page, health))
        except (OSError, OverflowError) as error:
            raise Invalid(f"http.listen: cannot listen on {listen}: {error}") from error
        self.address = f"{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True).start()

    def close(self) -> None:
        """Stop serving; requests under way are cut."""
        self._server.shutdown()
        self._server.server_close()


def _server(host: str, port: int) -> Callable[[Callable[..., BaseHTTPRequestHandler]], ThreadingHTTPServer]:
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
    kind = type("Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
    return partial(kind, (host, port))


class _Page(BaseHTTPRequestHandler):
    timeout = TIMEOUT_SECONDS

    def __init__(self, health: Mapping[str, Trouble], *request: object) -> None:
        self._health = health
        super().__init__(*request)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, generate_latest(), CONTENT_TYPE_LATEST)
        elif (trouble := self._health.get(path.removeprefix("/health/"))) and path.startswith("/health/"):
            sentence = trouble()
            self._answer(503 if sentence else 200, f"{sentence or 'ok'}\n".encode())
        else:
            known = "".join(f"/health/{name}\n" for name in self._health)
            self._answer(404, f"/metrics\n{known}".encode())

    def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a probe every few seconds is no news."""
