"""uvicorn on a thread of its own: the socket, TLS with a certificate that can be replaced, and the bounds of connections.

The bounds of connections are in ``accepting`` and ``protocol``. A new certificate counts for new connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from typing import Any, Final

import uvicorn

from nodepool_ocb.api.accepting import ListeningLoop, OpenConnections
from nodepool_ocb.api.protocol import HEAD_BYTES, BoundedProtocol
from nodepool_ocb.config import ApiSettings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.http.server import host_and_port, why_not_bound
from nodepool_ocb.model.ranges import is_loopback

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 5
BACKLOG: Final = 2048
START_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 3.0


class Listener:
    """Serves an ASGI application. ``open`` may be called again; all methods are for the turn thread."""

    def __init__(self, app: Any, settings: ApiSettings, listen: str | None = None) -> None:
        """Binds the address; raises Invalid if that or the certificate cannot be used."""
        self._settings = settings
        self._socket = _bound(listen or settings.listen, settings)
        host, port = self._socket.getsockname()[:2]
        scheme = "https" if settings.cert is not None else "http"
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self._config = _config(app, settings)
        self._server = uvicorn.Server(self._config)
        self._thread: threading.Thread | None = None
        self._failed: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why no request is taken; None while requests are taken or the server ends."""
        return self._failed

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._server.server_state.tasks

    def open(self) -> None:
        """Take requests, from the first call on. Raises Invalid if uvicorn does not start."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._serve, name="uvicorn", daemon=True)
        self._thread.start()
        log.info("serving %s", self.address)

    def _serve(self) -> None:
        try:
            connections = OpenConnections(self._settings.connections)
            with asyncio.Runner(loop_factory=lambda: ListeningLoop(connections)) as runner:
                runner.run(self._server.serve(sockets=[self._socket]))
        except Exception as error:
            log.exception("the HTTP server ended")
            self._failed = f"the HTTP server ended: {error}; restart this daemon"

    def renew_certificate(self) -> None:
        """Read the certificate and its key again, for new connections. Raises Invalid and keeps the former ones."""
        if self._settings.cert is None or not self._config.loaded:
            return
        _context(self._settings)  # by itself: a fault must not reach the one in use
        context = self._config.ssl
        assert context is not None
        context.load_cert_chain(self._settings.cert, self._settings.key)

    def stop(self) -> None:
        """Take no new connection, and end when no request is left."""
        self._server.should_exit = True

    def close(self) -> None:
        """End within seconds; requests under way are cut."""
        self._server.should_exit = self._server.force_exit = True
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        self._socket.close()


def require_safe(settings: ApiSettings) -> None:
    """Raises Invalid for settings by which tokens would cross a network in plain text, or with a faulty certificate."""
    host, _ = host_and_port(settings.listen)
    if settings.cert is None and not settings.allow_plaintext and not is_loopback(host.strip("[]")):
        raise Invalid(
            f"api.listen: {settings.listen} is reached from other hosts, and tokens would not be encrypted; set api.cert and"
            " api.key, or listen on 127.0.0.1 behind a proxy with TLS, or set api.allow_plaintext: true"
        )
    if (settings.cert is None) != (settings.key is None):
        raise Invalid("api.cert and api.key belong together; set both, or none")
    if settings.client_ca is not None and settings.cert is None:
        raise Invalid("api.client_ca: client certificates need TLS; set api.cert and api.key, too")
    if settings.cert is not None:
        _context(settings)


def _context(settings: ApiSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(str(settings.cert), settings.key)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(
            f"api.cert, api.key: {settings.cert}, {settings.key}: {error}; give a certificate and its key as PEM"
        ) from error
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise Invalid(f"api.client_ca: {settings.client_ca}: {error}; give certificates as PEM") from error
    return context


def _bound(listen: str, settings: ApiSettings) -> socket.socket:
    require_safe(settings)
    host, port = host_and_port(listen)
    try:
        family = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Invalid(f"cannot listen on {listen}: {why_not_bound(error)}; see api.listen") from error
    made.setblocking(False)
    return made


def _config(app: Any, settings: ApiSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ssl_certfile=settings.cert,
        ssl_keyfile=settings.key,
        ssl_ca_certs=settings.client_ca,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if settings.client_ca is not None else ssl.CERT_NONE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
        backlog=BACKLOG,
    )
