"""Thousands of idle and dripping connections from another process: a server of the API answers clients that ask meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from tests.api.events import EventClient
from tests.api.flooding import flooded
from tests.api.served import ServedApi
from tests.cli.test_config_check import certificate

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


def test_a_flood_of_connections_leaves_a_client_its_answers(zk_settings: ZooKeeperSettings, tmp_path: Path) -> None:
    api = ServedApi(zk_settings, tmp_path, connections=100)
    try:
        flood(api, idle=300, dripping=60, most=100, rounds=3)
    finally:
        api.close()


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
