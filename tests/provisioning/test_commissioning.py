"""The scripts that test a machine before its disks are written: the machine is a folder, and its programs are small scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.jigs.ssh import attributes
from nodepool_ocb.model.records import Json
from tests.catalogue.test_shipped_barclamps import IMPORTED, seen
from tests.jigs.bench import Bench, Ended

GIB: Final = 1024**3
long = pytest.mark.long
SCANNED: Final = {"smart_status": {"passed": True}, "temperature": {"current": 31}}
NVME: Final = {
    "smart_status": {"passed": True},
    "nvme_smart_health_information_log": {"percentage_used": 3, "critical_warning": 0},
}


def ata(reallocated: int = 0, pending: int = 0, **more: Any) -> dict[str, Any]:
    """The answer of smartctl for a disk at SATA."""
    table = [{"id": 5, "raw": {"value": reallocated}}, {"id": 197, "raw": {"value": pending}}]
    return {**SCANNED, "ata_smart_attributes": {"table": table}, **more}


class TestedMachine:
    """Folders as /sys and /proc, and programs that answer as the tests say."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        self.bench = Bench(folder / "bench", programs=f"{self.programs}:/usr/sbin:/usr/bin:/sbin:/bin")
        self.says("sys/class/dmi/id/product_serial", "S1")
        self.says("sys/class/dmi/id/product_uuid", "u-1")
        self.says("sys/class/dmi/id/product_name", "R/1 %")
        self.says("sys/class/dmi/id/bios_version", "2.17")
        self.says("proc/cpuinfo", "processor : 0\nprocessor : 1")
        self.says("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 3145728 kB")
        self.wall: dict[str, Json] = {}  # of the newest run that succeeded

    def says(self, path: str, text: str) -> None:
        """A file of the kernel."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(f"{text}\n")

    def disk(self, name: str, answer: dict[str, Any] | None, removable: int = 0) -> None:
        """A disk, and the answer of smartctl."""
        self.says(f"sys/block/{name}/device/model", "M")
        self.says(f"sys/block/{name}/removable", str(removable))
        self.says(f"sys/block/{name}/size", "100")
        self.says(f"answers/{name}", json.dumps(answer or {"smartctl": {"exit_status": 2}}))
        self.program("smartctl", f'for disk; do :; done; cat "{self.folder}/answers/${{disk##*/}}"; exit 4')

    def card(self, name: str, carrier: str, speed: str = "") -> None:
        """A network card."""
        self.says(f"sys/class/net/{name}/device/vendor", "V")
        self.says(f"sys/class/net/{name}/carrier", carrier)
        if speed:
            self.says(f"sys/class/net/{name}/speed", speed)

    def program(self, name: str, text: str) -> None:
        """A program of the machine; each call is noted."""
        file = self.programs / name
        file.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.folder}/calls\n{text}\n')
        file.chmod(0o755)

    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def run(self, role: str, *, check: bool = False, **values: Json) -> Ended:
        """The run of a role; ``values``: by place, with __ for / and _ for -."""
        sent = seen(role)
        for place, value in values.items():
            sent = blobs.write(sent, place.replace("__", "/").replace("_", "-"), value)
        sent = blobs.merge(sent, self.wall)
        self.bench.give(attributes.tree(sent))
        environment = {
            "OCB_ROLE": role,
            "OCB_ROOT": "/",
            "OCB_SYS": f"{self.folder}/sys",
            "OCB_PROC": f"{self.folder}/proc",
        }
        act = self.bench.check if check else self.bench.run
        ended = act(IMPORTED.roles[role].script or "", **environment)
        if ended.code == 0 and not check:
            self.wall = attributes.apply({}, self.bench.written)
        return ended


@pytest.fixture
def machine(tmp_path: Path) -> TestedMachine:
    return TestedMachine(tmp_path / "machine")


def refused(ended: Ended, *words: str) -> None:
    """It failed, and the last line, which the noderole keeps as its reason, has these words."""
    assert ended.code == 1, ended
    last = ended.said.splitlines()[-1]
    for each in words:
        assert each in last


def test_a_machine_that_is_as_its_inventory_says_is_discovered(machine: TestedMachine) -> None:
    facts: dict[str, Json] = {"serial": "S1", "uuid": "u-1", "cpus": 2, "memory": 4 * GIB - 200 * 1024**2}
    found = machine.run("provisioner-discover", machine=facts)
    assert found == (0, "the machine is as its inventory says\n")
    assert "has no inventory" in machine.run("provisioner-discover").said


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"serial": "S2"}, "the machine has serial S1, and its inventory says S2"),
        pytest.param({"cpus": 4}, "the machine has CPUs 2, and its inventory says 4", marks=long),
        pytest.param(
            {"memory": 8 * GIB}, "the machine has 4096 MiB of memory, and its inventory says 8192 MiB", marks=long
        ),
    ],
)
def test_another_machine_than_that_of_the_inventory_is_named(
    machine: TestedMachine, facts: dict[str, Json], words: str
) -> None:
    refused(machine.run("provisioner-discover", machine=facts), words, "nodepool-ocb node inventory n1.example.com")
    drift = machine.run("provisioner-discover", check=True, machine=facts)
    assert (drift.code, drift.said) == (2, f"{words}\n")


@pytest.mark.parametrize("answer", [ata(10), NVME, pytest.param(ata(0, temperature={"current": 70}), marks=long)])
def test_a_disk_within_the_bounds_passes_and_a_stick_is_left_out(machine: TestedMachine, answer: Any) -> None:
    machine.disk("sda", answer)
    machine.disk("sdb", ata(999), removable=1)
    assert machine.run("commission-disks") == (0, "1 disks: sda\n")
    assert not any("sdb" in call for call in machine.calls())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ata(11), "sda: 11 reallocated sectors, and 10 are permitted"),
        pytest.param(ata(0, 1), "sda: 1 pending sectors, and 0 are permitted", marks=long),
        pytest.param(ata(smart_status={"passed": False}), "sda: SMART says that the disk fails", marks=long),
        pytest.param(ata(temperature={"current": 71}), "sda: 71 degrees Celsius, and 70 are permitted", marks=long),
        pytest.param(
            {"smart_status": {"passed": True}, "scsi_grown_defect_list": 12}, "sda: 12 reallocated sectors", marks=long
        ),
        (
            {**NVME, "nvme_smart_health_information_log": {"percentage_used": 95, "critical_warning": 4}},
            "sda: 95 % worn, and 90 are permitted; sda: NVMe warning 4",
        ),
    ],
)
def test_a_disk_outside_a_bound_is_named_and_passes_with_another_bound(
    machine: TestedMachine, answer: Any, words: str
) -> None:
    machine.disk("sda", answer)
    refused(machine.run("commission-disks"), words)
    drift = machine.run("commission-disks", check=True)
    assert drift.code == 2
    assert words in drift.said
    machine.disk("sda", ata())
    assert machine.run("commission-disks").code == 0


def test_a_bound_of_a_disk_is_an_attribute(machine: TestedMachine) -> None:
    machine.disk("sda", ata(11))
    assert machine.run("commission-disks", commissioning__disks__reallocated=11).code == 0
    refused(machine.run("commission-disks", commissioning__disks__least=2), "the machine has 1 disks, and 2 must be")


def test_a_machine_that_passed_before_its_installation_fails_no_more_on_its_system(machine: TestedMachine) -> None:
    machine.says("proc/cmdline", "quiet ocb.mode=discovery")
    machine.disk("sda", ata())
    assert machine.run("commission-disks").code == 0
    machine.disk("sda", ata(11))
    refused(machine.run("commission-disks"), "11 reallocated sectors")
    machine.says("proc/cmdline", "quiet")
    for _ in range(2):  # the wall keeps where it passed
        ended = machine.run("commission-disks")
        assert (ended.code, "11 reallocated sectors" in ended.said) == (0, True)
        assert ended.said.endswith("the machine passed before its installation\n")
    assert machine.run("commission-disks", check=True).code == 2, "a check reports it"
    machine.says("sys/class/dmi/id/product_uuid", "u-2")
    refused(machine.run("commission-disks"), "11 reallocated sectors")


def test_a_disk_without_smart_passes_unless_the_site_requires_it(machine: TestedMachine) -> None:
    machine.disk("vda", None)
    assert (
        "vda has no SMART that can be read (smartctl ends with 4): it is not judged"
        in machine.run("commission-disks").said
    )
    refused(
        machine.run("commission-disks", commissioning__disks__smart_required=True), "vda has no SMART that can be read"
    )


@long
def test_a_machine_without_smartctl_fails_unless_it_is_a_virtual_one(machine: TestedMachine) -> None:
    machine.disk("sda", ata())
    (machine.programs / "smartctl").unlink()
    refused(machine.run("commission-disks"), "smartctl or jq is not here: boot the environment of etc/provisioner")
    assert machine.run("commission-disks", machine={"virtual": True}).code == 0


def test_the_memory_is_tested_once_for_each_machine_and_set_of_bounds(machine: TestedMachine) -> None:
    machine.program("memtester", "exit 0")
    assert machine.run("commission-memory") == (0, "4096 MiB; 256 MiB passed 1 times\n")
    assert [call.partition("memtester ")[2] for call in machine.calls()] == ["256M 1"]
    assert machine.run("commission-memory").said == "4096 MiB; 256 MiB were tested before\n"
    assert len(machine.calls()) == 1, "not again after a boot"
    assert "4096 MiB; a check tests no memory" in machine.run("commission-memory", check=True).said
    machine.run("commission-memory", commissioning__memory__again="2")
    machine.says("sys/class/dmi/id/product_uuid", "u-2")
    machine.run("commission-memory", commissioning__memory__again="2")
    assert len(machine.calls()) == 3, "another word and another machine are tested"


@long
def test_the_test_of_the_memory_is_bounded(machine: TestedMachine) -> None:
    machine.program("memtester", "exit 0")
    machine.run("commission-memory", commissioning__memory__test_mib=9999)
    assert machine.calls()[-1].endswith("memtester 1536M 1"), "half of the free memory"
    machine.program("memtester", "sleep 20")
    ended = machine.run("commission-memory", commissioning__memory__seconds=1, commissioning__memory__again="2")
    refused(ended, "did not end within 1 s")
    machine.wall = {}
    assert machine.run("commission-memory", commissioning__memory__test_mib=0).code == 0


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "printf 'Stuck\\b\\bFAILURE: possible bad address line at offset 0x7.\\n'; exit 2",
            "memtester found FAILURE: possible bad",
        ),
        pytest.param("exit 4", "the memory is broken: memtester found a fault (status 4)", marks=long),
        pytest.param("exit 1", "memtester could not test 256 MiB (status 1); test less", marks=long),
    ],
)
def test_a_fault_of_the_memory_is_named_and_a_retry_tests_again(
    machine: TestedMachine, program: str, words: str
) -> None:
    machine.program("memtester", program)
    refused(machine.run("commission-memory"), words)
    machine.program("memtester", "exit 0")
    assert machine.run("commission-memory").code == 0
    assert len(machine.calls()) == 2


@long
def test_less_memory_than_wanted_and_a_missing_program_are_named(machine: TestedMachine) -> None:
    refused(
        machine.run("commission-memory", commissioning__memory__least_mib=8192), "has 4096 MiB of memory, and 8192 must"
    )
    refused(machine.run("commission-memory"), "memtester is not here: boot the environment of etc/provisioner")


def test_links_of_the_wanted_speed_are_counted(machine: TestedMachine) -> None:
    machine.card("eth0", "1", "1000")
    machine.card("eth1", "1", "25000")
    machine.card("eth2", "0")
    machine.card("eth3", "1", "-1")
    assert (
        machine.run("commission-network").said
        == "eth0: 1000 Mbit/s, eth1: 25000 Mbit/s, eth2: no link, eth3: a link of unknown speed\n"
    )
    slow = {"commissioning__network__speed": 10000, "commissioning__network__links": 3}
    refused(
        machine.run("commission-network", **slow),
        "2 network cards have a link of 10000 Mbit/s or more, and 3 must: eth0: 1000",
    )
    assert machine.run("commission-network", check=True, **slow).code == 2
    machine.says("proc/cmdline", "ocb.mode=discovery")
    machine.program(
        "ip",
        f"echo 25000 >{machine.folder}/sys/class/net/eth2/speed; echo 1 >{machine.folder}/sys/class/net/eth2/carrier",
    )
    machine.program("sleep", "")
    assert machine.run("commission-network", **slow).code == 0, "our environment sets each card up before"
    assert f"{machine.programs}/ip link set dev eth2 up" in machine.calls()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"versions": {"R/1 %": "2.1*"}}, None),
        ({"versions": {"R/1 %": "2.18"}}, "the firmware of R/1 % has version 2.17, and 2.18 is permitted: update it"),
        pytest.param({"versions": {"R2": "2.17"}}, "no version is named for product R/1 %, which has 2.17", marks=long),
        pytest.param({"mode": "bios"}, None, marks=long),
        pytest.param({"mode": "uefi"}, "the machine booted by bios, and mode is uefi", marks=long),
    ],
)
def test_the_firmware_is_compared_with_the_permitted_versions(
    machine: TestedMachine, values: dict[str, Json], words: str | None
) -> None:
    given = {f"commissioning__firmware__{key}": value for key, value in values.items()}
    if words is None:
        assert machine.run("commission-firmware", **given).code == 0
    else:
        refused(machine.run("commission-firmware", **given), words)
        assert machine.run("commission-firmware", check=True, **given).code == 2
