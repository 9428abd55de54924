"""Each power driver against a real BMC, host or QEMU: its commands have their effect, and each fault names its kind."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb import power
from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.power import Powered, PowerStep
from nodepool_ocb.power import Endpoint, FaultKind, Power, PowerFault
from nodepool_ocb.power.commands import carried_out
from nodepool_ocb.testing import bmcs
from nodepool_ocb.testing.bmcs import PASSWORD, USER, IpmiBmc, RedfishBmc
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.ports import free_port
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.virtual import speaking_disk
from nodepool_ocb.testing.virtual.network import machines_turn

pytestmark = pytest.mark.skipif(bmcs.lacking() is not None, reason=str(bmcs.lacking()))

SECONDS = 60.0


@contextlib.contextmanager
def at(driver: str, address: str, *, password: str = PASSWORD, **options: str) -> Iterator[Power]:
    """The power at an address, as its owner would give it."""
    endpoint = Endpoint(driver=driver, address=address, username=USER, password=password, options=options)
    found = power.opened(endpoint)
    try:
        yield found
    finally:
        found.close()


def becomes(found: Power, state: Powered) -> None:
    """Wait until it reports a state."""
    deadline = time.monotonic() + SECONDS
    while found.status() is not state:
        assert time.monotonic() < deadline, f"it is not {state}"
        time.sleep(0.2)


def until(holds: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def fault(call: Callable[[], object]) -> tuple[FaultKind, str]:
    """The kind and the text of the fault that a call raises."""
    with pytest.raises(PowerFault) as raised:
        call()
    return raised.value.fault, str(raised.value)


@pytest.fixture(scope="module")
def redfish(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedfishBmc]:
    with RedfishBmc(tmp_path_factory.mktemp("redfish")) as bmc:
        yield bmc


@pytest.fixture
def ipmi(tmp_path: Path) -> Iterator[IpmiBmc]:
    with IpmiBmc(tmp_path / "ipmi") as bmc:
        yield bmc


def test_redfish_sets_one_boot_from_the_network_and_switches_on(redfish: RedfishBmc) -> None:
    import sushy

    with at("redfish", redfish.url) as found:
        found.network_once()
        found.on()
        becomes(found, Powered.ON)
    root = sushy.Sushy(redfish.url, username=USER, password=PASSWORD)
    (system,) = root.get_system_collection().get_members()
    assert system.boot.target is sushy.BootSource.PXE


def test_redfish_tells_a_wrong_password_from_silence_and_from_a_wrong_system(redfish: RedfishBmc) -> None:
    with at("redfish", redfish.url, password="another") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.LOGIN
    assert "refuses user admin" in said
    with at("redfish", redfish.url, system="none-such") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.REFUSED
    assert "system=ID" in said
    with at("redfish", f"http://127.0.0.1:{free_port()}") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.UNREACHABLE
    assert PASSWORD not in said


def test_redfish_waits_a_bounded_time_for_a_bmc_that_is_silent(
    redfish: RedfishBmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodepool_ocb.power.redfish.CALL_SECONDS", 1.0)
    proxy = Proxy(redfish.port)
    try:
        with at("redfish", f"http://127.0.0.1:{proxy.port}") as found:
            assert found.status() in (Powered.ON, Powered.OFF)
            proxy.drop_answers()
            began = time.monotonic()
            kind, _ = fault(found.on)
            assert kind is FaultKind.UNREACHABLE
            assert time.monotonic() - began < 10
    finally:
        proxy.close()


def test_redfish_through_a_proxy_that_refuses_is_unreachable_and_answers_again(redfish: RedfishBmc) -> None:
    proxy = Proxy(redfish.port)
    try:
        with at("redfish", f"http://127.0.0.1:{proxy.port}") as found:
            assert found.status() in (Powered.ON, Powered.OFF)
            proxy.cut()
            kind, said = fault(found.status)
            assert (kind, PASSWORD in said) == (FaultKind.UNREACHABLE, False)
            proxy.heal()
            assert found.status() in (Powered.ON, Powered.OFF)
    finally:
        proxy.close()


def test_a_task_of_redfish_that_hangs_is_a_command_without_effect(redfish: RedfishBmc) -> None:
    redfish.ignore()
    try:
        with at("redfish", redfish.url) as found:
            step = PowerStep.OFF if found.status() is Powered.ON else PowerStep.ON
            kind, said = fault(lambda: carried_out(found, step, False, lambda: True, threading.Event(), 0.5))
    finally:
        redfish.ignore(False)
    assert kind is FaultKind.NO_EFFECT
    assert "was accepted and had no effect" in said


@pytest.mark.long
def test_redfish_boots_a_qemu_once_from_the_network_and_then_from_its_disk(tmp_path: Path) -> None:
    boots = tmp_path / "tftp"
    boots.mkdir()
    (boots / "boot.ipxe").write_text("#!ipxe\necho the network speaks\nsleep 600\n")
    disk = speaking_disk.write(tmp_path / "disk", "the disk speaks")
    socket, console = tmp_path / "qmp", tmp_path / "console"
    console.touch()
    machine = [
        *("qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-display", "none", "-no-shutdown", "-S"),
        *("-machine", "q35,graphics=off", "-nodefaults", "-qmp", f"unix:{socket},server=on,wait=off"),
        *("-serial", f"file:{console}", "-drive", f"if=none,id=d,file={disk},format=raw"),
        *("-device", "virtio-blk-pci,drive=d,bootindex=2"),
        *("-netdev", f"user,id=n,restrict=on,tftp={boots},bootfile=boot.ipxe"),
        *("-device", "virtio-net-pci,id=nic0,netdev=n,bootindex=5"),
    ]
    with machines_turn(), contextlib.ExitStack() as ends:
        process = subprocess.Popen(machine, stdin=subprocess.DEVNULL)
        ends.callback(process.wait, 10)
        ends.callback(process.kill)
        until(lambda: socket.exists() and process.poll() is None, "QEMU begins")
        bmc = ends.enter_context(RedfishBmc(tmp_path / "bmc", socket))
        found = ends.enter_context(at("redfish", bmc.url))
        assert found.status() is Powered.OFF
        found.network_once()
        found.on()
        becomes(found, Powered.ON)
        until(lambda: "the network speaks" in console.read_text(errors="replace"), "it boots from the network")
        assert "the disk speaks" not in console.read_text(errors="replace")
        found.off()
        becomes(found, Powered.OFF)
        found.on()
        until(lambda: "the disk speaks" in console.read_text(errors="replace"), "it boots from its disk")


def test_ipmi_switches_and_sets_one_boot_from_the_network(ipmi: IpmiBmc) -> None:
    with at("ipmi", ipmi.address) as found:
        assert found.status() is Powered.OFF
        found.network_once()
        found.on()
        assert (found.status(), ipmi.value("boot")) == (Powered.ON, "pxe")
        found.off()
        assert (found.status(), ipmi.value("power")) == (Powered.OFF, "0")


def test_ipmi_tells_a_wrong_password_from_silence(ipmi: IpmiBmc, monkeypatch: pytest.MonkeyPatch) -> None:
    with at("ipmi", ipmi.address, password="another") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.LOGIN
    assert "refuses user admin" in said
    monkeypatch.setattr("nodepool_ocb.power.ipmi.TRIES", ("-R", "1", "-N", "1"))
    with at("ipmi", f"127.0.0.1:{free_port()}") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.UNREACHABLE
    assert PASSWORD not in said


def test_ipmi_shows_its_password_in_no_list_of_processes(
    ipmi: IpmiBmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "ipmitool"
    program.write_text(f'#!/bin/sh\ntr "\\0" " " </proc/$$/cmdline >{seen}\necho Chassis Power is on\n')
    program.chmod(0o755)
    monkeypatch.setattr("nodepool_ocb.power.ipmi.PROGRAM", str(program))
    with at("ipmi", ipmi.address) as found:
        assert found.status() is Powered.ON
    assert USER in seen.read_text()
    assert PASSWORD not in seen.read_text()


def test_a_host_without_ipmitool_is_at_fault_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodepool_ocb.power.ipmi.PROGRAM", "ipmitool-that-is-not-there")
    with at("ipmi", "127.0.0.1:1") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.OWN
    assert "install the package ipmitool" in said


@pytest.fixture
def qemu(tmp_path: Path) -> Iterator[str]:
    """The QMP socket of a QEMU that begins switched off, with one network device."""
    socket = tmp_path / "qmp"
    machine = ["qemu-system-x86_64", "-accel", "tcg", "-m", "32", "-display", "none", "-no-shutdown", "-S"]
    devices = ["-device", "virtio-net-pci,id=nic0,bootindex=5", "-qmp", f"unix:{socket},server=on,wait=off"]
    process = subprocess.Popen([*machine, *devices], stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SECONDS
        while not socket.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield f"unix:{socket}"
    finally:
        process.kill()
        process.wait(10)


def test_qemu_is_switched_by_its_socket(qemu: str) -> None:
    with at("qemu", qemu) as found:
        assert found.status() is Powered.OFF
        found.network_once()
        found.network_once()
        found.on()
        assert found.status() is Powered.ON
        found.on()
        assert found.status() is Powered.ON
        found.off()
        assert found.status() is Powered.OFF
    with at("qemu", qemu, nic="none-such") as found:
        kind, said = fault(found.network_once)
    assert kind is FaultKind.REFUSED
    assert "qom-get" in said


def test_qemu_that_is_gone_is_unreachable(tmp_path: Path) -> None:
    with at("qemu", f"unix:{tmp_path}/none") as found:
        kind, said = fault(found.status)
    assert kind is FaultKind.UNREACHABLE
    assert "No such file" in said


def test_ssh_runs_the_commands_of_the_operator_at_the_host(tmp_path: Path) -> None:
    with Farm(1, tmp_path / "farm") as farm:
        ((_, record),) = farm.records()
        state, settings = tmp_path / "state", SshSettings(**farm.settings())
        options = {
            "host_key": record.host_keys[0],
            "status": f"cat {state}",
            "on": f"echo on >{state}",
            "off": f"echo off >{state}; exit 0",
            "network_once": "echo no such machine; exit 3",
        }
        address = f"{record.user}@{record.addresses[0]}"
        found = power.opened(Endpoint(driver="ssh", address=address, options=options, login=settings))
        try:
            found.on()
            assert found.status() is Powered.ON
            found.off()
            assert found.status() is Powered.OFF
            kind, said = fault(found.network_once)
            assert kind is FaultKind.REFUSED
            assert "ended with 3: no such machine" in said
            state.write_text("crashed\n")
            assert found.status() is Powered.UNKNOWN
        finally:
            found.close()
        wrong = options | {
            "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        }
        found = power.opened(Endpoint(driver="ssh", address=address, options=wrong, login=settings))
        try:
            assert fault(found.status)[0] is FaultKind.LOGIN
        finally:
            found.close()


def test_a_machine_without_a_bmc_asks_a_person() -> None:
    with at("manual", "") as found:
        assert found.status() is Powered.UNKNOWN
        assert fault(found.on) == (FaultKind.MANUAL, "press its power button to switch it on")


@pytest.mark.parametrize(
    ("driver", "address", "options", "said"),
    [
        ("redfisch", "https://bmc", {}, "did you mean redfish?"),
        ("redfish", "bmc1", {}, "is no URL of a BMC"),
        ("redfish", "https://[bmc1", {}, "is no URL of a BMC"),
        ("redfish", "https://bmc1:99999", {}, "is no URL of a BMC"),
        ("redfish", "https://bmc1:0", {}, "is no URL of a BMC"),
        ("redfish", "https://bmc1:abc", {}, "is no URL of a BMC"),
        ("redfish", "https://u:p@bmc1", {}, "user and password have keys of their own"),
        ("redfish", "https://bmc1", {"sistem": "1"}, "did you mean system?"),
        ("redfish", "https://bmc1", {"mode": "EFI"}, "write uefi or bios"),
        ("redfish", "https://bmc1", {"verify": "false"}, "write yes or no"),
        ("redfish", "", {}, "driver redfish needs https://HOST"),
        ("ipmi", "http://bmc1", {}, "write HOST or HOST:PORT"),
        ("ipmi", "bmc1:99999", {}, "'99999' is no port"),
        ("ipmi", "[fd00::9]623", {}, "write [IPv6] or [IPv6]:PORT"),
        ("ipmi", "bmc1", {"interface": "serial"}, "write lanplus or lan"),
        ("ssh", "@host", {"host_key": "ssh-ed25519 AAAA"}, "has no user before @"),
        ("ssh", "root@host", {}, "host_key is needed"),
        ("ssh", "root@host", {"host_key": "ssh-ed25519 AAAA", "on": "a", "off": "b"}, "status is needed"),
        ("ssh", "root@host:0", {"host_key": "ssh-ed25519 AAAA"}, "is no port"),
        ("qemu", "unix:relative", {}, "write unix:/PATH or HOST:PORT"),
        ("manual", "somewhere", {}, "takes none"),
    ],
)
def test_wrong_access_is_refused_with_the_next_step(
    driver: str, address: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(said)):
        power.checked(driver, address, options)
