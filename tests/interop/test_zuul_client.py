"""Zuul 14's client library as a requester of our launcher: it submits, locks, uses and returns, or dies in the middle."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.model.pool import PoolNodeState
from tests.fixtures.upstream import SCRIPTS
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

pytestmark = pytest.mark.long

SECONDS: Final = 180


def zuul(launchers: LauncherFleet, zuul14: Path, folder: Path, die: str = "") -> list[dict[str, Any]]:
    """The steps of one requester."""
    with TlsProxy(launchers.server.port, folder / "tls") as proxy:
        order = {"hosts": proxy.hosts + launchers.chroot, **proxy.files, "label": "small", "die": die}
        done = subprocess.run(
            [zuul14 / "python", SCRIPTS / "zuul_client.py"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == (9 if die else 0), done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_zuul_submits_revises_locks_uses_and_returns(launchers: LauncherFleet, zuul14: Path, tmp_path: Path) -> None:
    launchers.launcher(launchers.cloud("north")).start()
    steps = {step["step"]: step for step in zuul(launchers, zuul14, tmp_path)}
    assert [*steps] == ["submitted", "revised", "fulfilled", "locked", "returned"]
    assert (steps["fulfilled"]["state"], steps["fulfilled"]["data"]["job_name"]) == ("fulfilled", "job")
    (node,) = steps["locked"]["nodes"]
    assert (node["type"], node["interface_ip"], node["username"]) == (["small"], "127.0.0.1", "root")
    assert node["host_keys"] == ["ssh-rsa FAKEKEY"]
    launchers.until(lambda: not launchers.nodes(), "the node is deleted")
    assert launchers.machines("north") == []


@pytest.mark.parametrize("step", ["submitted", "fulfilled", "locked"])
def test_a_zuul_that_dies_leaves_no_node_in_use(
    launchers: LauncherFleet, zuul14: Path, tmp_path: Path, step: str
) -> None:
    launchers.launcher(launchers.cloud("north")).start()
    (first, *_) = zuul(launchers, zuul14, tmp_path, die=step)
    assert launchers.read(first["id"]) is not None  # Zuul's requests are persistent: another scheduler goes on
    if step == "locked":
        launchers.until(lambda: not launchers.nodes(), "the node of the dead requester is deleted", 60.0)
        assert launchers.machines("north") == []
    else:
        launchers.until(
            lambda: any(node.state is PoolNodeState.READY for node in launchers.nodes().values()), "a node is ready"
        )
