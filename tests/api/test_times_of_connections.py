"""The times that a server gives a connection, and its bounds, with real sockets and a small application in place of the API."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import REGISTRY

from nodepool_ocb.api import accepting, protocol
from nodepool_ocb.api.accepting import HANDSHAKE, ListeningLoop
from tests.api.smallserver import LARGE_BYTES, SmallServer, answered, cut
from tests.cli.test_config_check import certificate

Until = Callable[..., None]

REQUEST: Final = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def server() -> Iterator[SmallServer]:
    made = SmallServer()
    yield made
    made.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SmallServer]:
    made = SmallServer(certificate(tmp_path, "api"))
    yield made
    made.close()


def ended(client: socket.socket) -> bool:
    """Whether the server closes it without an answer; waits for that."""
    with contextlib.suppress(ConnectionResetError):
        return client.recv(1) == b""
    return True


def left(until: Until) -> None:
    """Wait until the server counts no connection any more."""
    until(lambda: REGISTRY.get_sample_value("nodepool_ocb_api_connections") == 0)


def asked(client: socket.socket, path: bytes) -> socket.socket:
    client.sendall(REQUEST % path)
    return client


def test_a_client_that_says_nothing_is_closed_in_time(
    server: SmallServer, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "FIRST_SECONDS", 0.3)
    assert ended(server.client())
    left(until)


def test_a_client_that_leaves_without_a_word_gives_up_its_place(server: SmallServer, until: Until) -> None:
    client = server.client()
    until(lambda: REGISTRY.get_sample_value("nodepool_ocb_api_connections") == 1)
    client.close()
    left(until)


def test_a_client_that_does_not_go_on_with_tls_is_closed_in_time(
    secure: SmallServer, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "FIRST_SECONDS", 0.5)
    client = secure.client()
    client.sendall(HANDSHAKE)
    assert ended(client)
    left(until)


def test_a_client_that_speaks_no_tls_is_told_so_and_gives_up_its_place(secure: SmallServer, until: Until) -> None:
    assert b"this port speaks TLS" in asked(secure.client(), b"/").recv(1000)
    left(until)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(secure.client()) as client:
        assert answered(asked(client, b"/"))


def test_a_head_must_come_in_time_also_the_next_one_and_a_request_under_way_has_more(
    server: SmallServer, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    held, client = asked(server.client(), b"/held"), server.client()
    until(lambda: server.seen)
    client.sendall(REQUEST[:20] % b"/")
    assert ended(client)
    assert not cut(held)
    again = asked(server.client(), b"/")
    assert answered(again)
    again.sendall(REQUEST[:20] % b"/")
    assert ended(again)
    assert not cut(held)


def test_a_client_that_takes_nothing_of_an_answer_is_cut_and_one_that_takes_it_is_not(
    server: SmallServer, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STUCK_SECONDS", 1.0)
    reader = asked(server.client(), b"/large")
    got = 0
    while b"\r\n\r\n" not in (head := reader.recv(1 << 16, socket.MSG_PEEK)):
        assert head
    reader.recv(head.index(b"\r\n\r\n") + 4)
    while got < LARGE_BYTES:
        got += len(reader.recv(1 << 20))
    asked(reader, b"/held")
    until(lambda: len(server.protocols) == 2)
    stuck = asked(server.client(), b"/large")
    until(lambda: len(server.protocols) == 3 and server.protocols[2]._stuck is not None)
    until(lambda: REGISTRY.get_sample_value("nodepool_ocb_api_connections") == 1)
    assert not cut(reader)
    assert stuck.fileno() > 0


def test_a_connection_that_is_lost_leaves_no_timer(server: SmallServer, until: Until) -> None:
    stuck = asked(server.client(), b"/large")
    until(lambda: server.protocols and server.protocols[0]._stuck is not None)
    idle = asked(server.client(), b"/")
    assert answered(idle)
    until(lambda: server.protocols[1]._late is not None)
    stuck.close()
    idle.close()
    left(until)
    for each in server.protocols:
        assert (each._stuck, each._late) == (None, None), "it does not wait for the end of their time"
        until(lambda each=each: each.app_state == {})


def test_a_head_beyond_the_bound_is_refused_before_it_ends(
    server: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_BYTES", 1000)
    client = server.client()
    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 2000)
    assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert server.seen == []


def test_a_shortage_of_descriptors_does_not_end_the_server(
    server: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failures = ListeningLoop.sock_accept, [errno.EMFILE, errno.ENFILE]

    async def short(loop: Any, listener: Any) -> Any:
        if failures:
            raise OSError(failures.pop(), "too many open files")
        return await accept(loop, listener)

    monkeypatch.setattr(ListeningLoop, "sock_accept", short)
    assert answered(asked(server.client(), b"/"))  # by the accept that was under way
    assert answered(asked(server.client(), b"/"))
    assert failures == []
