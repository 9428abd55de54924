"""Machines that are containers of a real engine: busybox, dropbear and what a test needs beside them.

Their files are Debian's packages, unpacked by mmdebstrap from apt's mirror.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from nodepool_ocb.jigs import Order
from nodepool_ocb.model.records import Json, Node, Role
from nodepool_ocb.testing.engine import Engine, why_not
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.jigs.workshop import until

ADDRESS = "127.0.0.93"
BOOT = """\
{programs}
mkdir -p /root/.ssh /etc/dropbear /var/lib /tmp
echo root:x:0:0:root:/root:/bin/sh > /etc/passwd
echo '{key}' > /root/.ssh/authorized_keys
chmod -R go= /root
exec /usr/sbin/dropbear -F -E -R -s -p {address}:{port}
"""


class Machine:
    """The container, and how to give it orders."""

    def __init__(self, engine: Engine, container: DockerContainer, port: int, log: Path) -> None:
        self._engine, self._container, self._log = engine, container, log
        self.node = Node(addresses=(f"{ADDRESS}:{port}",), alive=True)

    def order(self, script: str, role: str = "ntp", epoch: int = 1, **fields: Any) -> Order:
        fields = {"generation": 1, "attributes": {}, "timeout_seconds": 60.0} | fields
        return Order(
            node="machine.example.com",
            record=self.node,
            role=role,
            epoch=epoch,
            definition=Role(barclamp="b", jig="script", script=script),
            run=f"{epoch:010d}-aaaaaa",
            log=self._log,
            **fields,
        )

    def task(self, parameters: Mapping[str, Json], *, noop: bool = False, **fields: Any) -> Order:
        """An order of a run of a task list."""
        order = self.order("", attributes={"tasks": {"run": "0000000003", "noop": noop}}, **fields)
        return replace(order, definition=Role(barclamp="tasks", jig="task", flags=("task",), parameters=parameters))

    def sh(self, script: str) -> str:
        """What a shell in the container says."""
        return self._engine.run("exec", self._container.get_wrapped_container().id, "/bin/sh", "-c", script)

    def processes(self, mark: str) -> int:
        """How many processes have this in their command line."""
        return int(self.sh(f"ps -o args | grep -v grep | grep -c '{mark}' || true"))


@contextmanager
def engine_with(images: Mapping[str, str]) -> Iterator[Engine]:
    """A container engine that has these images, each of these packages; skips the test where that cannot be had."""
    reason = why_not()
    if reason or shutil.which("mmdebstrap") is None:
        pytest.skip(f"no container engine: {reason}" if reason else "mmdebstrap is not installed")
    address = mirror("debian")
    if address is None:
        pytest.skip("apt knows no mirror of debian here; NODEPOOL_OCB_TEST_MIRROR names one")
    with Engine() as engine:
        for image, packages in images.items():
            tar = engine.directory / "machine.tar"
            unpack = ["mmdebstrap", "--variant=extract", f"--include={packages}", "bookworm", str(tar), address]
            done = subprocess.run(unpack, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"the mirror {address} gave no packages: {done.stderr[-300:]}")
            engine.run("import", str(tar), image)
        yield engine


def new_key(folder: Path) -> Path:
    """A private key that opens the machines."""
    file = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file


@contextmanager
def started(
    engine: Engine, image: str, key: Path, log: Path, programs: str = "/bin/busybox --install -s /bin", **more: Any
) -> Iterator[Machine]:
    """A machine of the image that lets the key in; ``programs``: what its first process begins with, ``more`` as for
    docker's ``run``.
    """
    testcontainers_config.ryuk_disabled = True
    port = free_port()
    public = key.with_suffix(".pub").read_text().strip()
    boot = BOOT.format(programs=programs, key=public, address=ADDRESS, port=port)
    container = DockerContainer(image, docker_client_kw={"environment": {"DOCKER_HOST": engine.url}})
    container.with_command(["/bin/busybox", "sh", "-euc", boot]).with_kwargs(network_mode="host", **more)
    with container:
        until(lambda: _listens(port))
        machine = Machine(engine, container, port, log)
        if machine.sh("[ -d /etc/dropbear ] && echo inside || true") != "inside\n":
            pytest.skip("this engine runs in a chroot: what it is to run in a container runs outside of it")
        yield machine


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0
