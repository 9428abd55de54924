"""The connections that a server cuts for new ones, with real sockets and a small application in place of the API."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from nodepool_ocb.api import accepting
from nodepool_ocb.api.accepting import OpenConnections
from nodepool_ocb.api.logins import FailedLogins
from tests.api.smallserver import SmallServer, answered, cut

Until = Callable[..., None]


@pytest.fixture
def server() -> Iterator[SmallServer]:
    made = SmallServer()
    yield made
    made.close()


@pytest.fixture
def send(server: SmallServer, until: Until) -> Callable[..., socket.socket]:
    """Send a request, and wait until the application has its head, and its body if that comes."""

    def send(path: str, length: int = 0, client: socket.socket | None = None) -> socket.socket:
        client, before = client or server.client(), len(server.seen)
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode())
        until(lambda: len(server.seen) >= before + (2 if "held" in path and not length else 1))
        return client

    return send


Send = Callable[..., socket.socket]


def test_a_request_of_a_caller_that_is_not_known_is_cut_for_a_new_client(send: Send) -> None:
    first, second = send("/held"), send("/held")
    assert answered(send("/"))
    assert (cut(first), cut(second)) == (True, False)


def test_a_request_of_a_known_caller_is_never_cut(server: SmallServer, send: Send) -> None:
    first, second = send("/held/known"), send("/held")
    assert answered(send("/"))
    assert (cut(first), cut(second)) == (False, True)
    third = send("/held/known")
    assert server.client().recv(1) == b""
    assert (cut(first), cut(third)) == (False, False)


def test_a_known_caller_whose_body_does_not_come_is_cut_for_a_new_client(send: Send) -> None:
    first, second = send("/held/known", length=5), send("/held/known", length=5)
    assert answered(send("/"))
    assert (cut(first), cut(second)) == (True, False)


def test_a_known_caller_whose_body_comes_late_is_kept_from_then_on(
    server: SmallServer, send: Send, until: Until
) -> None:
    first = send("/held/known", length=5)
    first.sendall(b"hello")
    until(lambda: "body" in server.seen)
    second = send("/held")
    assert answered(send("/"))
    assert (cut(first), cut(second)) == (False, True)


def test_the_next_request_of_a_known_caller_is_judged_anew(send: Send) -> None:
    first = send("/known")
    assert answered(first)
    second = send("/held/known")
    send("/held", client=first)
    assert answered(send("/"))
    assert (cut(first), cut(second)) == (True, False)


def test_the_head_of_a_request_puts_its_connection_behind_the_others(send: Send) -> None:
    first, second = send("/"), send("/")
    assert answered(first)
    assert answered(second)
    send("/held", client=first)
    assert answered(send("/"))
    assert (cut(first), cut(second)) == (False, True)


def test_a_connection_that_leaves_in_the_pause_before_a_cut_makes_the_room(
    server: SmallServer, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = send("/held"), send("/held")
    monkeypatch.setattr(accepting, "PAUSE_SECONDS", 1.0)
    third = server.client()
    second.close()
    assert answered(send("/", client=third))
    assert not cut(first)


def test_a_connection_that_has_left_is_not_cut_again_and_a_cut_makes_room_at_once() -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    gone, oldest, newest = (each[0] for each in pairs)
    connections = OpenConnections(2)
    connections.accepted(gone)
    connections.accepted(oldest)
    connections.left(gone)
    connections.waits(gone)
    connections.accepted(newest)
    assert connections.full
    assert connections.cut_oldest()
    assert not connections.full
    assert [cut(each[1]) for each in pairs] == [False, True, False]
    assert connections.cut_oldest()
    assert [cut(each[1]) for each in pairs] == [False, True, True]
    for each in (end for pair in pairs for end in pair):
        each.close()


def test_failed_logins_of_all_addresses_wait_in_a_bounded_number_and_give_up_their_places() -> None:
    failures = FailedLogins(2)

    async def fail(*addresses: str) -> list[bool]:
        return await asyncio.gather(*map(failures.delayed, addresses))

    assert asyncio.run(fail("192.0.2.1", "192.0.2.2", "192.0.2.3")) == [True, True, False]
    assert asyncio.run(fail("192.0.2.3", "192.0.2.4")) == [True, True]
