"""Virtual machines of tests: they boot, obey their power, and end with the process that made them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.virtual import speaking_disk
from nodepool_ocb.testing.virtual.machine import Device, VirtualDisk, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.virtual.network import VirtualNetwork, machines_turn, why_not

LINE = "the disk speaks"
BOOT_SECONDS = 60.0

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[VirtualNetwork]:
    with machines_turn(), VirtualNetwork(tmp_path) as made:
        yield made


def test_a_machine_boots_its_disk_and_obeys_its_power(network: VirtualNetwork, tmp_path: Path) -> None:
    disk = VirtualDisk(path=speaking_disk.write(tmp_path / "disk", LINE))
    parts = VirtualHardware(macs=("52:54:00:00:00:01",), memory_mb=64, disks=(disk,), order=(Device.DISK,))
    with VirtualMachine(network, "m1", parts) as machine:
        machine.on().await_console(LINE, BOOT_SECONDS)
        before = len(machine.said)
        machine.reset()
        machine.await_console(LINE, BOOT_SECONDS, since=before)
        machine.off()
        assert not machine.powered
        machine.on(deadline_seconds=0.5)
        with pytest.raises(RuntimeError, match="before its power was off; its console ends"):
            machine.await_console("never said", BOOT_SECONDS)


def test_hosts_of_a_network_reach_each_other_and_no_other_host(network: VirtualNetwork, tmp_path: Path) -> None:
    with Namespace(tmp_path, "admin") as admin, Namespace(tmp_path, "stranger") as stranger:
        network.attach(admin, "10.1.0.2/24", "fd00::2/64")
        network.attach(stranger, "10.1.0.3/24")
        assert tried(stranger, "10.1.0.2") == errno.ECONNREFUSED
        assert tried(stranger, "192.0.2.1") == errno.ENETUNREACH
        assert stranger.run("ip", "route") == "10.1.0.0/24 dev eth0 proto kernel scope link src 10.1.0.3 \n"


def test_the_test_itself_gets_an_address_until_the_network_ends(network: VirtualNetwork, tmp_path: Path) -> None:
    with Namespace(tmp_path, "admin") as admin:
        network.attach(admin, "10.249.7.2/24")
        outside = network.attach_test("10.249.7.1/24")
        assert tried(admin, "10.249.7.1") == errno.ECONNREFUSED
        network.close()
        assert not Path(f"/sys/class/net/{outside}").exists()


def test_all_programs_inside_end_with_the_process_that_made_the_namespace(
    tmp_path: Path, until: Callable[..., None]
) -> None:
    script = (
        "import pathlib, sys; from nodepool_ocb.testing.virtual.namespaces import Namespace\n"
        "with Namespace(pathlib.Path(sys.argv[1]), 'short') as inside:\n"
        "    inside.start('sleep', '5017')\n"
        "    while 'sleep 5017' not in inside.run('ps', '-eo', 'args').splitlines(): pass\n"
        "    print('begun', flush=True); sys.stdin.read()\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdin=-1, stdout=-1, text=True)
    assert maker.stdout is not None
    assert maker.stdin is not None
    assert maker.stdout.readline() == "begun\n"
    assert _sleepers()
    maker.kill()
    maker.wait()
    maker.stdin.close()
    maker.stdout.close()
    until(lambda: not _sleepers())


def tried(host: Namespace, address: str) -> int:
    """The number of the error of a connection to a port without a server: refused where the address was reached."""
    script = "import socket, sys; print(socket.socket().connect_ex((sys.argv[1], 9)))"
    return int(host.run(sys.executable, "-c", script, address))


def _sleepers() -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x005017\x00":
                found.append(pid)
        except OSError:
            continue  # it ended meanwhile
    return found
