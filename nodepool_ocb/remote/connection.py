"""One request to an API server, and the lines of its answer. Errors of the network become errors of this project.

A request that was not sent raises Unavailable. A request with an answer that broke off raises OutcomeUnknown.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid, OutcomeUnknown, Unavailable
from nodepool_ocb.remote.address import ApiAddress

CONNECT_SECONDS: Final = 7.0  # as for ZooKeeper
SILENT_SECONDS: Final = 600.0  # between two lines of an answer: a large change is one transaction after the other
PROBED_SECONDS: Final = 15  # of silence, before TCP asks whether the server is still there
PROBES: Final = 4
MOST_LINE_BYTES: Final = 256 << 20  # the answer of one round is one line
MOST_ERROR_BYTES: Final = 1 << 20


class HttpAnswer:
    """An answer of which the head has arrived."""

    def __init__(self, address: ApiAddress, response: http.client.HTTPResponse) -> None:
        self._address = address
        self._response = response
        self.status = response.status
        self.reason = response.reason
        self.media_type = (response.getheader("Content-Type") or "").partition(";")[0].strip().lower()

    @property
    def headers(self) -> dict[str, str]:
        """All headers, with names in small letters."""
        return {name.lower(): value for name, value in self._response.getheaders()}

    def header(self, name: str) -> str | None:
        """A header; None if the answer has none of this name."""
        return self._response.getheader(name)

    def body(self) -> bytes:
        """The whole body of a small answer. Raises OutcomeUnknown."""
        with _broken(self._address):
            return self._response.read(MOST_ERROR_BYTES)

    def lines(self) -> Iterator[bytes]:
        """The lines that are not empty, as they arrive. Raises OutcomeUnknown if the answer breaks off."""
        while True:
            with _broken(self._address):
                line = self._response.readline(MOST_LINE_BYTES + 1)
            if not line:
                return
            if not line.endswith(b"\n"):
                raise OutcomeUnknown(f"the answer of {self._address.url} broke off; look before you try again")
            if line.strip():
                yield line


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``path`` is below that of the server's address."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None
    patience_seconds: float | None = None  # for the connection, and between two lines of the answer


@contextmanager
def sent(address: ApiAddress, request: HttpRequest, ca: str | None = None) -> Iterator[HttpAnswer]:
    """The answer to a request, with its connection open. Raises Unavailable, OutcomeUnknown, or Invalid for ``ca``."""
    with closing(_connection(address, ca, request.patience_seconds or CONNECT_SECONDS)) as connection:
        _connect(connection, address, request.patience_seconds or SILENT_SECONDS)
        with _broken(address):
            connection.request(request.method, address.path + request.path, request.body, dict(request.headers))
            response = connection.getresponse()
        with response:
            yield HttpAnswer(address, response)


def _connection(address: ApiAddress, ca: str | None, seconds: float) -> http.client.HTTPConnection:
    if address.scheme == "https":
        return http.client.HTTPSConnection(address.host, address.port, timeout=seconds, context=_context(ca))
    return http.client.HTTPConnection(address.host, address.port, timeout=seconds)


def _connect(connection: http.client.HTTPConnection, address: ApiAddress, silent_seconds: float) -> None:
    """Raises Unavailable."""
    try:
        connection.connect()
    except ssl.SSLCertVerificationError as wrong:
        raise Unavailable(
            f"the certificate of {address.url} is not trusted: {wrong.verify_message};"
            f" name the certificates that identify it: nodepool-ocb login {address.url} --ca FILE"
        ) from wrong
    except OSError as error:
        raise Unavailable(f"{address.url} cannot be reached: {_reason(error)}; is nodepool-ocb-api running?") from error
    _watch_over(connection.sock, silent_seconds)


def _watch_over(sock: socket.socket, silent_seconds: float) -> None:
    """TCP ends the connection to a host that has gone."""
    sock.settimeout(silent_seconds)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBED_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBED_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as wrong:
        raise Invalid(f"{ca}: is no file of certificates: {_reason(wrong)}; name a file in PEM form") from wrong


@contextmanager
def _broken(address: ApiAddress) -> Iterator[None]:
    """Errors after the request was sent."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise OutcomeUnknown(
            f"the answer of {address.url} broke off: {_reason(error)}; look before you try again"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
