"""The daemon of the API as a process: registration, outages of ZooKeeper, a second server, certificates, bounds, its end."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.operations.daemons.listing import DaemonList
from nodepool_ocb.testing.processes import API, DaemonProcess
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.events import EventClient
from tests.api.served import ServedApi, problem
from tests.cli.test_config_check import certificate

Until = Callable[..., None]


@pytest.fixture
def proxied(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[tuple[Proxy, ServedApi]]:
    """A server that reaches ZooKeeper through a proxy; its session lasts for some seconds."""
    proxy = Proxy(int(zookeeper.hosts.rpartition(":")[2]))
    made = ServedApi(ZooKeeperSettings(hosts=f"{proxy.hosts}{chroot}", session_timeout_seconds=6.0), tmp_path)
    yield proxy, made
    made.close()
    proxy.close()


def test_a_server_is_registered_says_its_work_and_ends_in_time(
    zk_settings: ZooKeeperSettings, tmp_path: Path, until: Until
) -> None:
    api = ServedApi(zk_settings, tmp_path, drain_seconds=60.0)
    stream = EventClient(
        api.address, api.token
    )  # it ends with the drain, which is else much longer than the test waits
    (row,) = [each for each in api.direct.perform(DaemonList()) if each.kind == "api"]
    assert (row.state, row.trouble, row.pid, row.pages) == ("running", None, api.daemon.pid, api.daemon.pages)
    api.ask("GET", "/v1/nodes")
    assert api.daemon.metric('nodepool_ocb_api_requests_total{status="200"}') >= 1
    api.daemon.terminate()
    assert api.daemon.wait(15.0) == 0
    until(lambda: stream.ended)
    stream.close()
    until(lambda: not [each for each in api.direct.perform(DaemonList()) if each.kind == "api"])
    assert "Traceback" not in api.daemon.said
    api.close()


def test_while_zookeeper_is_away_reads_say_their_age_and_writes_are_refused_at_once(
    proxied: tuple[Proxy, ServedApi], until: Until
) -> None:
    proxy, api = proxied
    api.call("deployment/create", {"name": "lab"})
    before = api.ask("GET", "/v1/deployments", Ocb_Min_Zxid="1")
    proxy.cut()
    until(lambda: float(api.ask("GET", "/v1/deployments").headers["ocb-age"]) > 1.0, 20.0)
    read = api.ask("GET", "/v1/deployments")
    assert (read.status_code, read.json()["answer"]) == (200, before.json()["answer"])
    began = time.monotonic()
    write = api.ask("PUT", "/v1/deployments/away", {})
    assert problem(write) == (503, "unavailable", "Unavailable")
    assert "retry-after" in write.headers
    fresh = api.ask("POST", "/v1/operations/deployment/list", {})
    assert problem(fresh)[0] == 503
    assert time.monotonic() - began < 10.0
    proxy.heal()
    until(lambda: api.ask("PUT", "/v1/deployments/back", {}).status_code in (200, 409), 60.0)
    until(lambda: "back" in api.ask("GET", "/v1/deployments").text)


def test_a_client_reads_its_own_write_through_another_server(zk_settings: ZooKeeperSettings, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second = (ServedApi(zk_settings, tmp_path / name) for name in ("first", "second"))
        stack.callback(first.close)
        stack.callback(second.close)
        for number in range(20):
            writer, reader = (first, second) if number % 2 else (second, first)
            zxid = writer.ask("PUT", f"/v1/deployments/d{number}", {}).headers["ocb-zxid"]
            read = reader.ask("GET", "/v1/deployments", token=first.token, Ocb_Min_Zxid=zxid)
            assert f'"d{number}"' in read.text
        versions = {each.ask("GET", "/v1/deployments", Ocb_Min_Zxid=zxid).headers["etag"] for each in (first, second)}
        assert len(versions) == 1


def served_certificate(api: ServedApi) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = api.address.partition("//")[2].split(":")
    with socket.create_connection((host, int(port)), 10.0) as plain, context.wrap_socket(plain) as secure:
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return found


@pytest.mark.long
@pytest.mark.parametrize("hours", [pytest.param(-7, id="behind"), pytest.param(7, id="ahead", marks=pytest.mark.long)])
def test_the_end_of_a_token_counts_by_the_clock_of_zookeeper(
    zk_settings: ZooKeeperSettings, tmp_path: Path, hours: int
) -> None:
    api = ServedApi(zk_settings, tmp_path, ahead_seconds=hours * 3600.0)
    try:
        lasting, ended = api.direct.token(seconds=3600.0), api.direct.token(seconds=0.001)
        assert api.ask("GET", "/v1/nodes", token=lasting).status_code == 200
        assert problem(api.ask("GET", "/v1/nodes", token=ended))[0] == 401
    finally:
        api.close()


def test_a_renewed_certificate_is_served_without_a_restart_and_a_faulty_one_is_not(
    zk_settings: ZooKeeperSettings, tmp_path: Path, until: Until
) -> None:
    cert, key = certificate(tmp_path, "api")
    api = ServedApi(zk_settings, tmp_path / "api", cert=str(cert), key=str(key))
    assert api.ask("GET", "/v1/deployments").status_code == 200
    before = served_certificate(api)
    plain = httpx.get(api.address.replace("https", "http"))
    assert (plain.status_code, "https" in plain.text) == (400, True)
    cert.write_text("no certificate")
    until(lambda: "refused" in api.daemon.said)
    assert served_certificate(api) == before
    other, other_key = certificate(tmp_path, "other")
    key.write_bytes(other_key.read_bytes())
    cert.write_bytes(other.read_bytes())
    until(lambda: served_certificate(api) != before)
    assert api.ask("GET", "/v1/deployments").status_code == 200
    api.close()


def test_more_connections_than_allowed_are_closed_and_leave_room_when_they_go(
    zk_settings: ZooKeeperSettings, tmp_path: Path, until: Until
) -> None:
    api = ServedApi(zk_settings, tmp_path, connections=8)
    host, port = api.address.partition("//")[2].split(":")
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection((host, int(port)), 10.0)) for _ in range(30)]
        closed = 0
        for each in idle:
            each.settimeout(0.2)
            try:
                closed += each.recv(1) == b""
            except ConnectionResetError:
                closed += 1
            except TimeoutError:
                pass
        assert closed >= 22
        assert api.daemon.metric("nodepool_ocb_api_refused_connections_total") >= 22

    def answers() -> bool:
        try:
            return api.ask("GET", "/v1/deployments").status_code == 200
        except Exception:
            return False

    until(answers)
    api.close()


@pytest.mark.long
def test_a_client_that_sends_no_head_in_time_is_closed(api: ServedApi) -> None:
    host, port = api.address.partition("//")[2].split(":")
    with socket.create_connection((host, int(port)), 10.0) as slow:
        slow.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\n")
        slow.settimeout(20.0)
        began = time.monotonic()
        assert slow.recv(1) == b""
        assert 5.0 < time.monotonic() - began < 19.0


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"listen": "0.0.0.0:0"}, "tokens would not be encrypted"),
        ({"listen": "127.0.0.1:0", "cert": "gone.pem"}, "belong together"),
        ({"listen": "127.0.0.1:0", "cert": "gone.pem", "key": "gone.key"}, "give a certificate and its key"),
        ({"listen": "nowhere"}, "cannot listen on nowhere"),
    ],
)
def test_settings_by_which_tokens_would_be_read_on_the_way_are_refused(
    zk_settings: ZooKeeperSettings, tmp_path: Path, section: dict[str, str], sentence: str
) -> None:
    daemon = DaemonProcess(zk_settings, tmp_path, {"api": section}, launcher=API).begin()
    assert daemon.wait(30.0) == 1
    assert sentence in daemon.said
