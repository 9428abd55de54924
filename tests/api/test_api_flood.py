"""Thousands of connections that say nothing, or have no token: a server of the API answers clients that ask meanwhile."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from nodepool_ocb.api.logins import MOST_DELAYED
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.events import EventClient
from tests.api.flooding import flooded
from tests.api.served import ServedApi, problem
from tests.cli.test_config_check import certificate
from tests.fixtures.chroots import fresh

Until = Callable[..., None]

LATE_SECONDS: Final = 10.0  # on a busy machine
MORE_BYTES: Final = 128 << 20


def asked(api: ServedApi) -> float:
    """The seconds until a new client has its answer."""
    began = time.monotonic()
    with httpx.Client(base_url=api.address, timeout=LATE_SECONDS, verify=False) as client:
        answer = client.get("/v1/deployments", headers={"Authorization": f"Bearer {api.token}"})
    assert answer.status_code == 200
    return time.monotonic() - began


def flood(api: ServedApi, idle: int, dripping: int, most: int, rounds: int) -> None:
    """Ask during a flood; the connections and the memory stay within their bounds, and no stream is cut."""
    asked(api)
    stream = EventClient(api.address, api.token)
    before = api.daemon.resident_bytes
    with flooded(api.address.partition("//")[2], idle, dripping):
        took = [asked(api) for _ in range(rounds)]
        print(f"{idle} idle: {sorted(took)[rounds // 2]:.3f} s median, {max(took):.3f} s at most")
        assert max(took) < LATE_SECONDS
        assert most // 2 < api.daemon.metric("nodepool_ocb_api_connections") <= most
        assert api.daemon.resident_bytes <= before + MORE_BYTES
    assert asked(api) < LATE_SECONDS
    assert not stream.ended
    stream.close()
    assert "Traceback" not in api.daemon.said
    assert api.daemon.said.count("\n") < 200


MOST: Final = 80  # connections of the small server
STREAMS: Final = 20  # of one token there


@pytest.fixture(scope="module")
def small(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('flood')}")
    made = ServedApi(settings, tmp_path_factory.mktemp("flood"), connections=MOST)
    yield made
    made.close()


def test_a_flood_of_connections_leaves_a_client_its_answers(small: ServedApi) -> None:
    flood(small, idle=300, dripping=60, most=MOST, rounds=3)


def sent(api: ServedApi, request: bytes, times: int, kept: ExitStack) -> list[socket.socket]:
    """Connections with this request; they are closed at the end of ``kept``."""
    host, port = api.address.partition("//")[2].split(":")
    made = [kept.enter_context(socket.create_connection((host, int(port)), LATE_SECONDS)) for _ in range(times)]
    for each in made:
        with suppress(OSError):  # it may be cut for another one
            each.sendall(request)
    return made


@pytest.mark.parametrize(
    "head",
    [b"POST /keystone/v2.0/tokens HTTP/1.1\r\n", b"PUT /v1/deployments/x HTTP/1.1\r\nAuthorization: Bearer %b\r\n"],
    ids=["no token", "a token"],
)
def test_requests_whose_body_does_not_come_leave_a_client_its_answers(small: ServedApi, head: bytes) -> None:
    request = head.replace(b"%b", small.token.encode()) + b"Host: localhost\r\nContent-Length: 100\r\n\r\n"
    with ExitStack() as kept:
        sent(small, request, MOST + 20, kept)
        assert [asked(small) < LATE_SECONDS for _ in range(3)] == [True] * 3
    assert "Traceback" not in small.daemon.said


def test_few_failed_logins_of_an_address_wait_and_the_others_end_their_connection_at_once(small: ServedApi) -> None:
    with ExitStack() as kept:
        clients = sent(small, b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n", 40, kept)
        answers = [each.recv(65536) for each in clients]
        assert asked(small) < LATE_SECONDS
        assert all(each.startswith(b"HTTP/1.1 401 ") for each in answers)
        at_once = [client for client, each in zip(clients, answers, strict=True) if b"connection: close" in each]
        assert MOST // 4 < len(at_once) <= len(clients) - MOST_DELAYED
        assert len(select.select(at_once, [], [], LATE_SECONDS)[0]) == len(at_once), "they are closed"


def test_one_token_takes_a_part_of_the_connections_with_streams_and_leaves_the_rest(
    small: ServedApi, until: Until
) -> None:
    token, other = small.direct.token(role="viewer"), small.direct.token(role="viewer")
    request = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    with ExitStack() as kept:
        streams = sent(small, request, STREAMS, kept)
        assert all(b" 200 " in each.recv(15) for each in streams)
        refused = small.ask("GET", "/v1/events", token=token)
        assert problem(refused) == (429, "too-many", "TooMany")
        assert "20 streams" in refused.json()["detail"]
        assert refused.headers["retry-after"]
        others = EventClient(small.address, other)
        others.wait(until, lambda each: each.last is not None)
        others.close()
        streams[0].close()
        until(lambda: b" 200 " in sent(small, request, 1, kept)[0].recv(15))


def test_one_token_has_a_bounded_number_of_writes_and_calls_under_way(small: ServedApi, until: Until) -> None:
    token, other = small.direct.token(role="operator"), small.direct.token(role="operator")
    body = b'{"labels": ["small"]}'
    head = (
        f"POST /v1/requests?wait=5 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )

    def called(name: str, by: str) -> httpx.Response:
        return small.ask("POST", "/v1/operations/deployment/create", {"fields": {"name": name}}, by)

    with ExitStack() as kept:
        sent(small, head.encode() + body, STREAMS, kept)
        until(lambda: len(small.ask("GET", "/v1/requests").json()["answer"]) >= STREAMS)
        for refused in (called("more", token), small.ask("PUT", "/v1/deployments/more", {}, token)):
            assert problem(refused) == (429, "too-many", "TooMany")
            assert "20 writes and calls" in refused.json()["detail"]
            assert refused.headers["retry-after"]
        assert called("others", other).status_code == 200
        assert small.ask("GET", "/v1/nodes", token=token).status_code == 200
    until(lambda: called("later", token).status_code == 200)


@pytest.mark.long
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_ten_thousand_idle_connections_leave_a_client_its_answers(
    zk_settings: ZooKeeperSettings, tmp_path: Path, tls: bool
) -> None:
    more: dict[str, Any] = {}
    if tls:
        cert, key = certificate(tmp_path, "api")
        more = {"cert": str(cert), "key": str(key)}
    api = ServedApi(zk_settings, tmp_path / "api", **more)
    try:
        flood(api, idle=10_000, dripping=500, most=1000, rounds=20)
    finally:
        api.close()
