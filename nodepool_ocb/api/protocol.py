"""uvicorn's protocol of HTTP/1.1 with bounds, and without the leniencies by which two servers read different requests.

A client must send the head of a request in ``HEAD_SECONDS``, and take a part of an answer in ``STUCK_SECONDS``.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from nodepool_ocb.api.accepting import OpenConnections
from nodepool_ocb.api.actor import CERTIFICATE, KNOWN

HEAD_SECONDS: Final = 10.0
HEAD_BYTES: Final = 64 * 1024
STUCK_SECONDS: Final = 30.0  # that a client may take nothing of an answer

_VERSIONS: Final = (b"1.0", b"1.1")
_END: Final = b"\r\n\r\n"
#: A line that ends without CR, a CR within a line, and a header that goes on in the next line.
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r[^\n]|\n[ \t]")

_log: Final = logging.getLogger(__name__)
_log.setLevel(logging.ERROR)  # uvicorn warns of each faulty request, which any client can send without end


class StrictConnection(h11.Connection):
    """h11 for a server behind others: a request that another server might end elsewhere is an error.

    RFC 9112 lets a server accept bare LF, folded headers, and Transfer-Encoding beside Content-Length. A proxy may read these in
    another way, and a second request could hide in the first. No client needs trailers, so each is an error.
    """

    _checked = 0  # bytes of the head under way
    _chunked = False  # the body under way
    _recent = b""  # what came last, from two bytes before it on

    def receive_data(self, data: bytes) -> None:
        """As of h11."""
        self._recent = self._recent[-2:] + data
        super().receive_data(data)

    def next_event(self) -> Any:
        """As of h11; raises RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            self._check_lines()
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._checked = 0
            self._chunked = _require_one_end(event)
        elif isinstance(event, h11.EndOfMessage):
            self._check_end(event)
        return event

    def _check_end(self, event: h11.EndOfMessage) -> None:
        """h11 takes a bare LF for the last line of chunks."""
        recent, self._recent = self._recent, b""
        if not self._chunked:
            return
        left, _ = self.trailing_data
        if event.headers or not recent[: len(recent) - len(left)].endswith(b"\r\n"):
            raise h11.RemoteProtocolError("the chunks end with more than an empty line")

    def _check_lines(self) -> None:
        data, _ = self.trailing_data
        self._recent = data
        end = data.find(_END, max(0, self._checked - len(_END)))
        stop = len(data) if end < 0 else end + 2
        if _AMBIGUOUS.search(data, max(0, self._checked - 2), stop):
            raise h11.RemoteProtocolError("the lines of the head are ambiguous")
        self._checked = stop


def _require_one_end(request: h11.Request) -> bool:
    """Whether its body is chunked. Raises RemoteProtocolError for a request with an ambiguous end of its body."""
    names = {bytes(name).lower() for name, _ in request.headers}
    chunked = b"transfer-encoding" in names
    if bytes(request.http_version) not in _VERSIONS:
        raise h11.RemoteProtocolError("another version of HTTP")
    if chunked and (b"content-length" in names or bytes(request.http_version) == b"1.0"):
        raise h11.RemoteProtocolError("the end of the body is ambiguous")
    return chunked


class BoundedProtocol(H11Protocol):
    """The protocol of one connection."""

    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _socket: socket.socket
    _open: OpenConnections
    _asked: RequestResponseCycle | None = None  # the last request whose head was noted
    _known = False  # the holder of the token of the request under way

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = StrictConnection(h11.SERVER, HEAD_BYTES)
        self.logger = _log
        self.app_state = {**self.app_state, KNOWN: self._knows, CERTIFICATE: None}

    def belongs(self, connection: socket.socket, to: OpenConnections) -> None:
        """Tell the connection and the others; before it begins."""
        self._socket, self._open = connection, to

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app_state[CERTIFICATE] = tls.getpeercert(binary_form=True) if tls is not None else None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._go_on()
        self._open.left(self._socket)
        self.app_state = {}  # else the protocol would hold itself
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        self._known = False
        super().on_response_complete()
        if not self.transport.is_closing():
            self._look()

    def send_400_response(self, msg: str) -> None:
        """Refuse what came, and close; the answer of a request under way is not sent any more."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # the request has its answer already
            self.transport.close()

    # -- the time for a head, and the order in which connections are cut --

    def _knows(self) -> None:
        """The holder of the token of the request under way is known."""
        self._known = True
        self._look()

    def _look(self) -> None:
        """Note how far the request under way has come, or that there is none."""
        if self._between_requests():
            self._await_head()
            return
        self._forget()
        if self.cycle is not self._asked:
            self._asked = self.cycle
            self._open.asked(self._socket)
        if self._known and not self.cycle.more_body:
            self._open.served(self._socket)

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._open.waits(self._socket)
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._end)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        self._late = None  # it waits between two requests alone
        self.transport.close()

    # -- the time for an answer --

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(STUCK_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._go_on()
        super().resume_writing()

    def _go_on(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
