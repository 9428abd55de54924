"""One bounded request to an issuer: in time, in bytes, without a redirect, and over TLS except to this host."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from nodepool_ocb.errors import Invalid, Unauthorized, Unavailable

FETCH_SECONDS: Final = 5.0
MOST_BYTES: Final = 256 * 1024
LONGEST_URL: Final = 2_000
MEANWHILE: Final = "sign in with a token meanwhile, or try again"


def split(url: object, name: str) -> SplitResult:
    """The parts of an address. Raises Invalid unless it is https, or http of this host."""
    try:
        if not isinstance(url, str) or len(url) > LONGEST_URL or not url.isascii() or not url.isprintable():
            raise ValueError("it is no text of an address")
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it raises
    except ValueError as wrong:
        raise Invalid(f"{name} is no address: {wrong}") from None
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and _is_local(parts.hostname))):
        return parts
    raise Invalid(f"{name} must be an address with https; http is taken for an address of this host alone")


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def fetch(url: str, ca: str | None, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON object at an address; with a ``form`` it is posted there.

    Raises Unavailable without an answer of this kind in time, and Unauthorized for a posted form that is refused.
    """
    parts = split(url, "an address of the issuer")
    given = {"Accept": "application/json", "Connection": "close", **(headers or {})}
    if form is not None:
        given["Content-Type"] = "application/x-www-form-urlencoded"
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    try:
        status, body = _exchanged(_connection(parts, ca), "GET" if form is None else "POST", path, form, given)
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(
            f"the issuer at {parts.hostname} does not answer: {str(error)[:200] or type(error).__name__}; {MEANWHILE}"
        ) from error
    if form is not None and 400 <= status < 500:
        raise Unauthorized("the issuer refused this sign-in; begin it again")
    if status != 200:
        raise Unavailable(f"the issuer at {parts.hostname} answers with status {status}; {MEANWHILE}")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as wrong:
        raise Unavailable(f"the issuer at {parts.hostname} answers with no JSON object; {MEANWHILE}") from wrong


def _connection(parts: SplitResult, ca: str | None) -> http.client.HTTPConnection:
    """Raises Invalid for a file of certificates that cannot be read."""
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=FETCH_SECONDS)
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as wrong:
        raise Invalid(f"api.oidc.ca: {ca}: is no file of certificates; name a file in PEM form") from wrong
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=FETCH_SECONDS, context=context)


def _exchanged(
    connection: http.client.HTTPConnection, method: str, path: str, form: bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """The status and the body. Raises OSError and HTTPException."""
    end = time.monotonic() + FETCH_SECONDS
    connection.connect()
    sock = connection.sock
    timer = threading.Timer(max(0.0, end - time.monotonic()), lambda: sock.shutdown(2))  # against a drip of bytes
    timer.daemon = True
    timer.start()
    try:
        connection.request(method, path, form, dict(headers))
        response = connection.getresponse()
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise http.client.HTTPException(f"its answer has more than {MOST_BYTES} bytes")
        if time.monotonic() >= end:
            raise TimeoutError(f"no whole answer within {FETCH_SECONDS:g} s")
        return response.status, body
    finally:
        timer.cancel()
        connection.close()
