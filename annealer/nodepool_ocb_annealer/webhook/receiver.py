"""A request to the receiver: no redirect is followed, no proxy is asked, and it takes a bounded time.

Nothing that is told here has more of the URL than ``config.receiver``.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

TIMEOUT_SECONDS: Final = 10.0  # to connect to an address, and again for request and answer together
ANSWER_BYTES: Final = 4096  # that are read of an answer
WORDS: Final = 200  # characters of an error


def post(url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
    """None where the receiver took it, which is any answer 2xx; else why it did not, to go after its name."""
    too_late = threading.Event()
    try:
        with contextlib.closing(_connection(urlsplit(url))) as connection:
            connection.connect()
            return _refusal(_answer(connection, _target(urlsplit(url)), body, headers, too_late))
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a name that no host can have
        if too_late.is_set() or isinstance(error, TimeoutError):
            return f"did not answer within {TIMEOUT_SECONDS:g} s"
        return f"does not answer: {_words(error)}"


def authorization(url: str) -> str | None:
    """For the user and password of a URL, where it has any."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def secrets(url: str) -> set[str]:
    """The parts of a URL that must not be in a log."""
    parts = urlsplit(url)
    password = parts.password or ""
    return {password, unquote(password), url} - {""}


def _connection(parts: SplitResult) -> HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
    return HTTPSConnection(host, parts.port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context())


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _answer(
    connection: HTTPConnection, target: str, body: bytes, headers: Mapping[str, str], too_late: threading.Event
) -> int:
    """The status; ``too_late`` is set where that did not come in time."""
    sock = connection.sock  # which http.client forgets at an answer of HTTP/1.0, and may still read
    timer = threading.Timer(TIMEOUT_SECONDS, _abort, [sock, too_late])
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", target, body, dict(headers))
        answer = connection.getresponse()
        with contextlib.suppress(OSError, HTTPException):  # the status of the answer is known
            answer.read(ANSWER_BYTES)  # so that it may end in peace
        return answer.status
    finally:
        timer.cancel()


def _refusal(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answers {status}, and no redirect is followed; set annealer.webhook.url to where it leads"
    return f"answers {status}"


def _words(error: Exception) -> str:
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return words[:WORDS]


def _abort(sock: socket.socket, too_late: threading.Event) -> None:
    """Wake the waiting thread."""
    too_late.set()
    with contextlib.suppress(OSError):  # it has just ended
        sock.shutdown(socket.SHUT_RDWR)
