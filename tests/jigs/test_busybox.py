"""Jig script on a machine of busybox and dropbear, with flock beside them: no bash, no coreutils, no Python, no sshd.

The machine is a container of a real engine; its files are Debian's packages, unpacked by mmdebstrap from apt's mirror.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testcontainers.core.container import DockerContainer

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs import Failed, Fenced, Order, Succeeded
from nodepool_ocb.model.records import Node, Role
from nodepool_ocb.testing.engine import Engine, why_not
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.jigs.workshop import Annealer, until

MACHINE, WITHOUT_FLOCK = "busybox-machine", "busybox-machine-without-flock"
IMAGES = {MACHINE: "busybox-static,dropbear-bin,util-linux", WITHOUT_FLOCK: "busybox-static,dropbear-bin"}
ADDRESS = "127.0.0.93"
BOOT = """\
/bin/busybox --install -s /bin
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

    def sh(self, script: str) -> str:
        """What a shell in the container says."""
        return self._engine.run("exec", self._container.get_wrapped_container().id, "/bin/sh", "-c", script)

    def processes(self, mark: str) -> int:
        """How many processes have this in their command line."""
        return int(self.sh(f"ps -o args | grep -v grep | grep -c '{mark}' || true"))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    reason = why_not()
    if reason or shutil.which("mmdebstrap") is None:
        pytest.skip(f"no container engine: {reason}" if reason else "mmdebstrap is not installed")
    address = mirror("debian")
    if address is None:
        pytest.skip("apt knows no mirror of debian here; NODEPOOL_OCB_TEST_MIRROR names one")
    with Engine() as engine:
        for image, packages in IMAGES.items():
            tar = engine.directory / "machine.tar"
            unpack = ["mmdebstrap", "--variant=extract", f"--include={packages}", "bookworm", str(tar), address]
            done = subprocess.run(unpack, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"the mirror {address} gave no packages: {done.stderr[-300:]}")
            engine.run("import", str(tar), image)
        yield engine


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, engine: Engine, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    monkeypatch.setattr("testcontainers.core.config.testcontainers_config.ryuk_disabled", True)
    port = free_port()
    boot = BOOT.format(key=key.with_suffix(".pub").read_text().strip(), address=ADDRESS, port=port)
    container = DockerContainer(
        getattr(request, "param", MACHINE), docker_client_kw={"environment": {"DOCKER_HOST": engine.url}}
    )
    container.with_command(["/bin/busybox", "sh", "-euc", boot]).with_kwargs(network_mode="host")
    with container:
        until(lambda: _listens(port))
        machine = Machine(engine, container, port, tmp_path / "run.log")
        if machine.sh("[ -d /etc/dropbear ] && echo inside || true") != "inside\n":
            pytest.skip("this engine runs in a chroot: what it is to run in a container runs outside of it")
        yield machine


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0


@pytest.fixture
def annealers(key: Path) -> Iterator[Callable[[], Annealer]]:
    """Makes one annealer after another."""
    made: list[Annealer] = []

    def make() -> Annealer:
        made.append(Annealer(SshSettings(key_files=(str(key),), connect_timeout_seconds=5.0)))
        return made[-1]

    yield make
    for annealer in made:
        annealer.jig.close()


def test_a_script_runs_and_attributes_go_in_and_out(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    script = (
        "read_attribute a/b/1; write_attribute a/c cafe; write_attribute --json d '[1, 2.5]'; busybox | head -n 1 >&2\n"
        '. "$OCB_LIBRARY"; items a/b | put /root/items; items a/b | put /root/items'
    )
    outcome = annealers().run(machine.order(script, attributes={"a": {"b": ["x", "OK"]}}))
    assert isinstance(outcome, Succeeded)
    assert outcome.attributes == {"a": {"b": ["x", "OK"], "c": "cafe"}, "d": [1, 2.5]}
    assert "BusyBox" in outcome.tail
    assert outcome.tail.count("wrote /root/items\n") == 1
    assert machine.sh("cat /root/items") == "x\nOK\n"


def test_a_lower_epoch_is_refused_and_a_finished_run_is_adopted(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    first, second = annealers(), annealers()
    assert isinstance(first.run(machine.order("echo once >>/root/runs", epoch=5)), Succeeded)
    assert second.run(machine.order("echo late >>/root/runs", epoch=4)) == Fenced(5)
    assert isinstance(second.run(machine.order("echo once >>/root/runs", epoch=6, previous_epoch=5)), Succeeded)
    assert machine.sh("cat /root/runs") == "once\n"


def test_a_take_over_attaches_to_the_run_that_goes_on(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    script = "echo begun >>/root/runs; sleep 3; echo done"
    first = annealers().begin(machine.order(script))
    until(lambda: machine.sh("cat /root/runs 2>/dev/null || true"))
    second = annealers().run(machine.order(script, epoch=2, previous_epoch=1))
    assert isinstance(second, Succeeded)
    assert first() == second
    assert machine.sh("cat /root/runs") == "begun\n"


def test_a_run_that_takes_too_long_is_ended_with_all_its_processes(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    script = 'trap "" TERM; sleep 4321 & sleep 4321'
    outcome = annealers().run(machine.order(script, timeout_seconds=1.0))
    assert isinstance(outcome, Failed)
    assert "1 s" in outcome.reason
    until(lambda: machine.processes("sleep 4321") == 0)


def test_another_order_ends_what_ran_before(machine: Machine, annealers: Callable[[], Annealer]) -> None:
    first = annealers().begin(machine.order('trap "" TERM; sleep 1234'))
    until(lambda: machine.processes("sleep 1234"))
    assert isinstance(annealers().run(machine.order("true", role="dns", epoch=2)), Succeeded)
    assert machine.processes("sleep 1234") == 0
    assert first() == Fenced(2)


@pytest.mark.parametrize("machine", [WITHOUT_FLOCK], indirect=True)
def test_a_machine_without_flock_is_told_from_one_whose_lock_is_taken(
    machine: Machine, annealers: Callable[[], Annealer]
) -> None:
    outcome = annealers().run(machine.order("true"))
    assert isinstance(outcome, Failed)
    assert "install util-linux" in outcome.reason
