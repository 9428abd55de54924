"""The pages that a daemon serves over HTTP: /metrics, /health/live, /health/ready, and those that it brings itself.

A health page answers 200 and ``ok``, then the things covered; or 503 and one sentence that names the fault. The pages only read.
Health and metrics have no password, so they belong on a loopback or a management address (docs/security.md). The pages of the
daemon itself are private: the same port speaks TLS to a client that begins so. Such a client must prove that it has a key of the
cluster. However many clients connect, the pages leave the daemon its threads and descriptors (``connections``).
"""

from __future__ import annotations

import errno
import io
import logging
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from nodepool_ocb.errors import Invalid, OcbError, reason_of
from nodepool_ocb.http import connections
from nodepool_ocb.http.certificates import HANDSHAKE
from nodepool_ocb.http.connections import Answer, Connections, Request
from nodepool_ocb.http.page import Page, PageResponse, PrivatePages
from nodepool_ocb.http.proofs import proven
from nodepool_ocb.model import ranges

log = logging.getLogger(__name__)

#: The fault, in one sentence; None when all is well.
Trouble: TypeAlias = Callable[[], str | None]

KEYS: Final = "http.listen, builder.listen, launcher.listen, api.listen, api.pages"
SHORTAGE_SECONDS: Final = 0.2  # before the next connection, where the process cannot have one
#: The answer of a health page if all is well, by its name: the line behind ``ok`` says which parts are covered.
WELL: Final[Mapping[str, str]] = {
    "live": "ok\nthe loop of this daemon moves\n",
    "ready": "ok\nZooKeeper answers, the records are read, and this host is fit for work; no single noderole is covered\n",
}
PLAIN: Final = PageResponse(
    403,
    b"this page is served over TLS, to servers of the API and to people with a key of the cluster; see it with\n"
    b"nodepool-ocb noderole log, or nodepool-ocb image log\n",
)
UNPROVEN: Final = PageResponse(
    403, b"this request has no proof by a key of the cluster for the certificate of this daemon\n"
)


def host_and_port(listen: str) -> tuple[str, int]:
    """Host and port of where pages are to be served; raises Invalid. Port 0 is any free one."""
    host, _, text = listen.rpartition(":")
    port = ranges.port(text, least=0) if ":" in listen else None
    if port is None:
        raise Invalid(
            f"cannot listen on {listen or 'nothing'}: it is not HOST:PORT, as in 127.0.0.1:9470, with a port up to"
            f" {ranges.PORT}; see {KEYS}"
        )
    return host, port


class Pages:
    """Serves on ``listen`` ("HOST:PORT"; port 0 takes a free one) from a thread of its own, until closed.

    ``address`` is HOST:PORT for others to reach it by: a host name where it listens on every address of this host.
    Raises Invalid where the address cannot be used.
    """

    def __init__(self, listen: str, health: Mapping[str, Trouble], private: PrivatePages | None = None) -> None:
        host, port = host_and_port(listen)
        try:
            self._server = _server(host.strip("[]"), port)(partial(_Request, health, private))
        except OSError as error:
            raise Invalid(f"cannot listen on {listen}: {why_not_bound(error)}; see {KEYS}") from error
        self.address = f"{_reachable(host)}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True).start()

    def close(self) -> None:
        """Stop serving; requests under way are cut."""
        self._server.shutdown()
        self._server.server_close()


class Door:
    """The address at which the pages of a daemon are served, if any; ``on_listening`` gets each new address, or None."""

    def __init__(
        self,
        health: Mapping[str, Trouble],
        private: PrivatePages | None = None,
        on_listening: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._health, self._private, self._on_listening = health, private, on_listening
        self._listen: str | None = None
        self._served: Pages | None = None

    def move(self, listen: str | None) -> None:
        """Serve there from now on; raises Invalid where that cannot be, and serves on where it did."""
        if listen == self._listen:
            return
        if self._served and _port(listen) == _port(self._listen):  # the two may be in each other's way
            before = self._listen
            self.close()
            self._listen = self._served = None  # until a listener is open again
            try:
                served = self._open(listen)
            except Invalid:
                self._served = self._open(before)
                self._listen = before
                raise
        else:
            served = self._open(listen)
            self.close()
        self._listen, self._served = listen, served
        if served:
            log.info("serving http://%s/metrics", served.address)
        self._on_listening(served.address if served else None)

    def close(self) -> None:
        """Serve nowhere any more."""
        if self._served:
            self._served.close()

    def _open(self, listen: str | None) -> Pages | None:
        return Pages(listen, self._health, self._private) if listen else None


def _port(listen: str | None) -> str | None:
    return listen.rpartition(":")[2] if listen else None


def why_not_bound(error: OSError) -> str:
    """The reason why an address cannot be listened on, in the words of the system."""
    if error.errno == errno.EADDRINUSE:
        return "another process listens there; give each daemon of this host a port of its own"
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error)  # that of a name is negative


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self.connections = Connections()
        super().__init__(*arguments)

    def get_request(self) -> tuple[Any, Any]:
        """The next connection; a pause where there is no descriptor for it, since it stays the next one."""
        try:
            return super().get_request()
        except OSError as error:
            self.connections.refused(str(error))
            time.sleep(SHORTAGE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve it on a thread of its own, where there is room for it."""
        if not self.connections.admit(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread can be started
            self.connections.left(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The same, on that thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.left(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that left in the middle is no news."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.connections.refused(reason_of(error), error)


def _server(host: str, port: int) -> Callable[[Callable[..., BaseHTTPRequestHandler]], ThreadingHTTPServer]:
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
    kind = type("Server", (_Server,), {"address_family": family})
    return partial(kind, (host, port))


def _reachable(host: str) -> str:
    return socket.gethostname() if host.strip("[]") in ("", "0.0.0.0", "::") else host


class _Request(BaseHTTPRequestHandler):
    server: _Server

    def __init__(self, health: Mapping[str, Trouble], private: PrivatePages | None, *request: object) -> None:
        self._health = health
        self._private = private
        self._pages = private.pages if private is not None else {}
        super().__init__(*request)  # type: ignore[arg-type]

    def setup(self) -> None:
        """Read the request within its time, the beginning of TLS included."""
        ends = time.monotonic() + connections.REQUEST_SECONDS
        self.request.settimeout(connections.REQUEST_SECONDS)
        if self._private is not None and self.request.recv(1, socket.MSG_PEEK) == HANDSHAKE:
            self.request = self._secured(self._private, ends)
        super().setup()
        self.rfile = io.BufferedReader(Request(self.connection, ends))
        self.wfile = Answer(self.connection)

    def _secured(self, private: PrivatePages, ends: float) -> ssl.SSLSocket:
        """The connection over TLS; raises OSError."""
        secure = private.certificate.context.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
        self.server.connections.secured(self.request, secure)
        try:
            secure.settimeout(max(0.001, ends - time.monotonic()))
            secure.do_handshake()
        except BaseException:
            self.server.connections.asked(secure)
            secure.close()
            raise
        return secure

    def finish(self) -> None:
        """Close a connection over TLS: the server knows only the one that it began with."""
        try:
            super().finish()
        finally:
            if isinstance(self.connection, ssl.SSLSocket):
                self.server.connections.asked(self.connection)
                self.connection.close()

    def do_GET(self) -> None:
        self.server.connections.asked(self.connection)
        path, _, query = self.path.partition("?")
        name, _, rest = path.removeprefix("/").partition("/")
        if path == "/metrics":
            self._answer(PageResponse(200, generate_latest(), {"Content-Type": CONTENT_TYPE_LATEST}))
        elif name == "health" and (trouble := self._health.get(rest)):
            sentence = trouble()
            self._answer(
                PageResponse(503, f"{sentence}\n".encode()) if sentence else PageResponse(200, WELL[rest].encode())
            )
        elif page := self._pages.get(name):
            self._answer(self._refusal() or self._of(page, rest, query))
        else:
            known = ["/metrics", *(f"/health/{each}" for each in self._health), *(f"/{each}/" for each in self._pages)]
            self._answer(PageResponse(404, "".join(f"{each}\n" for each in known).encode()))

    def _refusal(self) -> PageResponse | None:
        """Why this client may not read private pages; None if it may."""
        assert self._private is not None
        if not isinstance(self.connection, ssl.SSLSocket):
            return PLAIN
        try:
            readers = self._private.readers()
        except OcbError as error:
            return PageResponse(503, f"this daemon cannot read the keys of the readers now: {error}\n".encode())
        digest = self._private.certificate.digest
        return None if proven(self.headers.get("Authorization"), digest, readers) else UNPROVEN

    def _of(self, page: Page, rest: str, query: str) -> PageResponse:
        try:
            asked = dict(parse_qsl(query, max_num_fields=16))
        except ValueError:
            return PageResponse(400, b"what follows the ? is too long\n")
        try:
            return page(rest, asked)
        except Exception:
            log.exception("the page for %.200r failed", self.path)
            return PageResponse(500, b"this page failed; the daemon's log says why\n")

    def _answer(self, answer: PageResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a probe every few seconds is no news."""
