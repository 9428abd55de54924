"""The launcher and the commands of Nodepool 11 on the tree of a fleet, and static machines that both products serve."""

from __future__ import annotations

import getpass
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml
from kazoo.client import KazooClient

from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

SECONDS: Final = 300.0
ROW: Final = re.compile(r"^\| (\d{10}) \| rack +\| [a-z]+ +\|.*\| ([a-z-]+) +\|[^|]*\|[^|]*\|$", re.MULTILINE)


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
    def launcher(self) -> Iterator[subprocess.Popen[bytes]]:
        """Its launcher runs meanwhile; at the end it gets SIGTERM."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [self._programs / "nodepool-launcher", "-f", "-c", self.file], stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30.0)
            print(self._log.read_text()[-3000:])


def rack(farm: Farm, count: int) -> dict[str, Any]:
    """A static provider with so many machines of the farm."""
    nodes = [
        {"name": host, "labels": ["small"], "username": getpass.getuser(), "connection-port": port}
        for host, port in map(farm.address, range(count))
    ]
    return {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": nodes}]}


def states(launchers: LauncherFleet) -> dict[str, str]:
    """The state of each node, as its record has it."""
    return {id: str(node.state) for id, node in launchers.nodes().items()}


def store(launchers: LauncherFleet, node: str, state: str, **keys: Any) -> None:
    """As Nodepool's storeNode writes: the whole record, without a version."""
    client = KazooClient(launchers.server.hosts + launchers.chroot)
    client.start(timeout=30)
    try:
        path = f"/nodepool/nodes/{node}"
        record = json.loads(client.get(path)[0])
        client.set(path, json.dumps({**record, "state": state, "state_time": time.time(), **keys}).encode())
    finally:
        client.stop()
        client.close()
