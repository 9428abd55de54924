"""The connections that a server cuts for new ones, with real sockets and a small application in place of the API."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from nodepool_ocb.api.actor import KNOWN
from nodepool_ocb.api.listener import Listener
from nodepool_ocb.api.logins import FailedLogins
from nodepool_ocb.config import ApiSettings

Until = Callable[..., None]

SECONDS: Final = 20.0
OK: Final = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}


class SmallServer:
    """At most two connections. ``/known`` tells that the caller is known, ``/held`` gives no answer; ``seen`` has the events."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.clients: list[socket.socket] = []
        self.listener = Listener(self, ApiSettings(listen="127.0.0.1:0", connections=2))
        self.listener.open()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if "known" in scope["path"]:
            scope["state"][KNOWN]()
        self.seen.append("head")
        if "held" in scope["path"]:
            while (message := await receive())["type"] != "http.disconnect":
                if not message["more_body"]:
                    self.seen.append("body")
            return
        await send(OK)
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"ok"})

    def client(self) -> socket.socket:
        host, port = self.listener.address.partition("//")[2].split(":")
        made = socket.create_connection((host, int(port)), SECONDS)
        self.clients.append(made)
        return made

    def close(self) -> None:
        for each in self.clients:
            each.close()
        self.listener.close()


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


def answered(client: socket.socket) -> bool:
    """Whether it gets an answer before its connection ends."""
    got = b""
    while not got.endswith(b"ok") and (part := client.recv(65536)):
        got += part
    return got.startswith(b"HTTP/1.1 200 ")


def cut(client: socket.socket) -> bool:
    """Whether the server has closed it; it has no answer to read."""
    return bool(select.select([client], [], [], 0.0)[0])


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


def test_failed_logins_of_all_addresses_wait_in_a_bounded_number_and_give_up_their_places() -> None:
    failures = FailedLogins(2)

    async def fail(*addresses: str) -> list[bool]:
        return await asyncio.gather(*map(failures.delayed, addresses))

    assert asyncio.run(fail("192.0.2.1", "192.0.2.2", "192.0.2.3")) == [True, True, False]
    assert asyncio.run(fail("192.0.2.3", "192.0.2.4")) == [True, True]
