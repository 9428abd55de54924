"""Ambiguous requests over raw sockets: no second request hides in a first one, and none that another server reads differently."""

from __future__ import annotations

import re
import socket
from typing import Final

import h11
import pytest

from nodepool_ocb.api.protocol import StrictConnection
from tests.api.served import ServedApi

SECONDS: Final = 20.0
#: A request that must never be served, and the last one of each connection.
HIDDEN: Final = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST: Final = b"GET /page/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
POST: Final = b"POST /v1/session HTTP/1.1\r\nHost: localhost\r\n"
GET: Final = b"GET /v1/session HTTP/1.1\r\nHost: localhost\r\n"


def sent(api: ServedApi, data: bytes) -> tuple[list[int], bytes]:
    """The statuses of all answers until the server closes, and their bytes."""
    host, port = api.address.partition("//")[2].split(":")
    got = b""
    with socket.create_connection((host, int(port)), SECONDS) as client:
        client.sendall(data)
        try:
            while part := client.recv(65536):
                got += part
        except ConnectionResetError:
            pass  # it closed before it had read all
    return [int(each) for each in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", got)], got


CHUNKS: Final = POST + b"Transfer-Encoding: chunked\r\n\r\n"


REFUSED: Final = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "chunks and length, of another case": POST + b"TRANSFER-ENCODING: Chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "a list of lengths": POST + b"Content-Length: 0, 5\r\n\r\n",
    "a length with a sign": POST + b"Content-Length: +0\r\n\r\n",
    "a length in another base": POST + b"Content-Length: 0x0\r\n\r\n",
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a folded header": GET + b"X-A: one\r\n two\r\n\r\n",
    "a header folded by a tab": GET + b"X-A: one\r\n\ttwo\r\n\r\n",
    "a bare LF in the head": GET + b"X-A: one\nContent-Length: 0\r\n\r\n",
    "a head that ends with bare LF": b"GET /v1/session HTTP/1.1\nHost: localhost\n\n",
    "a head that ends with LF": GET + b"X-A: one\r\n\n",
    "a bare CR in a header": GET + b"X-A: one\rContent-Length: 5\r\n\r\n",
    "a blank before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "another encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "encodings in a list": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /v1/session HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": GET + b"Host: other.example.com\r\n\r\n",
    "a NUL in a header": GET + b"X-A: one\0two\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": b"GET /v1/session HTTP/1.2\r\nHost: localhost\r\n\r\n",
    "a trailer": CHUNKS + b"0\r\nX-A: one\r\n\r\n",
    "a trailer that ends with LF": CHUNKS + b"0\r\nX-A: one\n\n",
    "a folded trailer": CHUNKS + b"0\r\nX-A: one\r\n two\r\n\r\n",
    "chunks that end with LF": CHUNKS + b"5\r\nhello\r\n0\r\n\n",
    "an empty line before the request": b"\r\n\r\n" + GET + b"\r\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_ambiguous_request_is_refused_and_its_connection_closed(api: ServedApi, case: str) -> None:
    statuses, got = sent(api, REFUSED[case] + HIDDEN + LAST)
    assert statuses == [400]
    assert b'"openapi"' not in got


@pytest.mark.parametrize(
    "chunk",
    [
        b"5;\nx\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5\r\nhelloGET",
        b"5\nhello\r\n",
        b"-5\r\nhello\r\n",
        b"f" * 30 + b"\r\n",
    ],
)
def test_a_faulty_chunk_ends_the_connection_and_leaves_no_line_of_a_fault_in_the_log(
    api: ServedApi, chunk: bytes
) -> None:
    said = len(api.daemon.said)
    statuses, got = sent(api, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n" + HIDDEN + LAST)
    assert len(statuses) <= 1
    assert set(statuses) <= {400, 403}
    assert b'"openapi"' not in got
    assert "Traceback" not in api.daemon.said[said:]


@pytest.mark.parametrize(
    "first",
    [
        POST + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0;c\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        GET + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
        GET
        + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
        GET
        + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n",
    ],
    ids=["extensions of chunks", "one length two times", "a request as a body", "HTTP/2 in clear text", "WebSocket"],
)
def test_an_odd_request_is_one_request(api: ServedApi, first: bytes) -> None:
    statuses, got = sent(api, first + LAST)
    assert len(statuses) == 2
    assert statuses[0] in (200, 403)
    assert statuses[1] == 404, "the last request, and no other one"
    assert b'"openapi"' not in got
    assert b"101 " not in got


def test_a_head_in_single_bytes_is_judged_as_one_in_a_piece(api: ServedApi) -> None:
    host, port = api.address.partition("//")[2].split(":")
    for head, status in (
        (REFUSED["a bare CR in a header"], b" 400 "),
        (REFUSED["a folded header"], b" 400 "),
        (LAST, b" 404 "),
    ):
        with socket.create_connection((host, int(port)), SECONDS) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for number in range(len(head)):
                    client.sendall(head[number : number + 1])
                assert status in client.recv(65536)
            except (BrokenPipeError, ConnectionResetError):
                assert status != b" 404 "


def events(connection: StrictConnection, data: bytes) -> list[str]:
    """The events after these bytes; ``wrong`` for an ambiguous request."""
    connection.receive_data(data)
    found = []
    try:
        while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            found.append(type(event).__name__)
    except h11.RemoteProtocolError:
        found.append("wrong")
    return found


@pytest.mark.parametrize(
    ("end", "last"),
    [(b"\r\n", "EndOfMessage"), (b"\n", "wrong"), (b"X-A: one\r\n\r\n", "wrong")],
    ids=["CRLF", "LF", "trailer"],
)
def test_chunks_in_single_bytes_are_judged_as_those_in_a_piece(end: bytes, last: str) -> None:
    whole = CHUNKS + b"2\r\n{}\r\n0\r\n" + end
    assert events(StrictConnection(h11.SERVER), whole)[-1] == last
    connection = StrictConnection(h11.SERVER)
    assert [each for byte in whole for each in events(connection, bytes((byte,)))][-1] == last


def test_the_second_head_of_a_connection_is_judged_from_its_beginning() -> None:
    connection = StrictConnection(h11.SERVER)
    assert events(connection, GET + b"X-A: a long first head\r\n\r\n") == ["Request", "EndOfMessage"]
    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()
    assert events(
        connection, b"GET / HTTP/1.1\r\nHost: a\r\nX-A: one\r\n two\r\nX-B: longer than the first head\r\n\r\n"
    ) == ["wrong"]


def test_chunks_that_wait_for_an_answer_are_judged_as_others() -> None:
    connection = StrictConnection(h11.SERVER)
    first = CHUNKS + b"0\r\n\r\n"
    assert events(connection, first + first) == ["Request", "EndOfMessage"]
    for part in (b"GET / HTT", b"P/1.1\r\nHost"):
        assert events(connection, part) == []
    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()
    assert [type(connection.next_event()).__name__ for _ in range(2)] == ["Request", "EndOfMessage"]


def test_a_faulty_chunk_behind_the_answer_closes_the_connection_and_is_not_logged(api: ServedApi) -> None:
    host, port = api.address.partition("//")[2].split(":")
    said = len(api.daemon.said)
    with socket.create_connection((host, int(port)), SECONDS) as client:
        client.sendall(CHUNKS)
        assert b" 403 " in client.recv(65536)
        client.sendall(b"no chunk\r\n" + HIDDEN)
        try:
            while got := client.recv(65536):
                assert b"HTTP/1.1" not in got
        except ConnectionResetError:
            pass
    assert api.client.get("/v1/session").status_code == 200
    assert "Traceback" not in api.daemon.said[said:]


def test_faulty_requests_do_not_fill_the_log(api: ServedApi) -> None:
    said = api.daemon.said.count("\n")
    for case in ("two lengths", "a folded header", "another encoding"):
        for _ in range(10):
            sent(api, REFUSED[case])
    assert api.daemon.said.count("\n") - said <= 3
