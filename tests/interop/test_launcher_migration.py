"""Nodepool 11's launcher hands its static nodes over to ours on the same tree, and ours hands them back."""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

pytestmark = pytest.mark.long

SECONDS: Final = 120.0
ROW: Final = re.compile(
    r"^\| (\d{10}) \| rack +\| small +\|.*\| (ready|in-use|used|hold|deleting|init|building) +\|", re.MULTILINE
)


class Nodepool11:
    """Nodepool's programs, with the tree of a fleet behind TLS."""

    def __init__(self, programs: Path, proxy: TlsProxy, launchers: LauncherFleet, provider: dict[str, Any]) -> None:
        self._programs, self._log = programs, launchers.folder / "nodepool-launcher.log"
        host, _, port = proxy.hosts.partition(":")
        self.file = launchers.folder / "nodepool-11.yaml"
        document = {
            "zookeeper-servers": [{"host": host, "port": int(port), "chroot": launchers.chroot}],
            "zookeeper-tls": proxy.files,
            "webapp": {"port": free_port(), "listen_address": "127.0.0.1"},
            "labels": [{"name": "small"}],
            "providers": [provider],
        }
        self.file.write_text(yaml.safe_dump(document))

    def run(self, *words: str) -> str:
        """The output of its command line."""
        command = [self._programs / "nodepool", "-c", self.file, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-1000:]
        return done.stdout

    def states(self) -> dict[str, str]:
        """The state of each node, as `nodepool list` shows it."""
        return dict(ROW.findall(self.run("list")))

    @contextmanager
    def launcher(self) -> Iterator[None]:
        """Its launcher runs meanwhile."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [self._programs / "nodepool-launcher", "-f", "-c", self.file], stdout=log, stderr=log
            )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30.0)
            print(self._log.read_text()[-3000:])


def rack(farm: Farm) -> dict[str, Any]:
    """A provider with each machine of the farm."""
    nodes = []
    for number in range(3):
        host, port = farm.address(number)
        nodes.append({"name": host, "labels": ["small"], "username": getpass.getuser(), "connection-port": port})
    return {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": nodes}]}


def states(launchers: LauncherFleet) -> dict[str, str]:
    return {id: str(node.state) for id, node in launchers.nodes().items()}


def test_static_nodes_move_to_our_launcher_and_back(launchers: LauncherFleet, nodepool11: Path, tmp_path: Path) -> None:
    with Farm(3, tmp_path / "farm") as farm, TlsProxy(launchers.server.port, tmp_path / "tls") as proxy:
        provider = rack(farm)
        peer = Nodepool11(nodepool11, proxy, launchers, provider)

        with peer.launcher():
            launchers.until(lambda: len(launchers.nodes(PoolNodeState.READY)) == 3, "three nodes are ready", SECONDS)
            first = launchers.request("small")
            (used,) = launchers.fulfilled(first, SECONDS)
            locks = launchers.take(first)
            held = next(iter(launchers.nodes(PoolNodeState.READY)))
            peer.run("hold", held)
        before = states(launchers)
        assert sorted(before.values()) == ["hold", "in-use", "ready"]

        ours = launchers.launcher(provider)
        ours.start()
        assert states(launchers) == before == peer.states()
        (ready,) = launchers.nodes(PoolNodeState.READY)
        second = launchers.request("small")
        launchers.fulfilled(second, SECONDS)
        record = launchers.read(second)
        assert record is not None
        assert record.nodes == (ready,)
        launchers.give_back(first, locks)
        launchers.until(
            lambda: any(
                node.allocated_to is None and node.interface_ip == used.interface_ip
                for node in launchers.nodes(PoolNodeState.READY).values()
            ),
            "the returned slot is ready again",
            SECONDS,
        )
        assert states(launchers) == peer.states()
        middle = states(launchers)
        ours.discard(10.0)
        launchers.launchers.remove(ours)

        with peer.launcher():
            third = launchers.request("small")
            launchers.fulfilled(third, SECONDS)
            after = states(launchers)
            assert {id: after.get(id) for id in middle} == middle
            assert after == peer.states()
