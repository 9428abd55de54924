"""A virtual machine of QEMU's own emulation (no KVM): firmware, disks, network cards, a serial console, and its power.

It is a program of its network's namespace. So it ends with the network, and at its deadline. While its power is off, it has no
process; its disks and the variables of its firmware stay in its folder.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.virtual import qmp
from nodepool_ocb.testing.virtual.namespaces import InnerProgram
from nodepool_ocb.testing.virtual.network import VirtualNetwork

OFF_SECONDS: Final = 10.0
#: QEMU's memory for translated code; a full memory is emptied. QEMU 7.2 keeps the code of earlier boots, and writes to pages with
#: much old code are slow. With the default of 1024 MB a kernel unpacked itself onto such pages at 20 bytes a second.
TRANSLATED_MB: Final = 320
CONSOLE_BYTES: Final = 4000  # of the console, in the message of a late condition


class Firmware(StrEnum):
    """The firmware of a machine; the UEFI ones are OVMF of Debian."""

    BIOS = "bios"
    UEFI = "uefi"
    SECURE = "secure"  # UEFI with Secure Boot on and Microsoft's keys enrolled


class Device(StrEnum):
    """The devices that a machine boots from."""

    NETWORK = "network"
    DISK = "disk"


class VirtualDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk: an empty file of this size, or the file ``path`` if it is given."""

    size_mb: int = 1024
    serial: str = ""
    wwn: int = 0  # 0: none
    rotational: bool = False
    durable: bool = False  # a write that the machine has flushed outlives a QEMU that is killed
    path: Path | None = None


class VirtualHardware(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's parts. ``kernel``, ``initrd`` and ``arguments`` skip the firmware's own boot."""

    macs: tuple[str, ...]
    memory_mb: int = 512
    cpus: int = 1
    firmware: Firmware = Firmware.BIOS
    disks: tuple[VirtualDisk, ...] = ()
    order: tuple[Device, ...] = (Device.NETWORK, Device.DISK)
    ipxe_card: bool = True  # the network card brings iPXE; without it UEFI uses its own network boot
    kernel: Path | None = None
    initrd: Path | None = None
    arguments: str = ""
    clock: str = ""  # a time such as 2010-01-01T00:00:00 for the clock of the machine
    more: tuple[str, ...] = ()  # more arguments of QEMU


_OVMF: Final[Mapping[Firmware, tuple[str, str]]] = {
    Firmware.UEFI: ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
    Firmware.SECURE: ("OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"),
}
_OVMF_FOLDER: Final = Path("/usr/share/OVMF")


class VirtualMachine:
    """A context manager; it begins without power.

    ``console`` is the file of its serial console, of all its boots. ``monitor`` is the socket of QEMU's machine protocol;
    it exists while the power is on.
    """

    def __init__(self, network: VirtualNetwork, name: str, hardware: VirtualHardware) -> None:
        self.network = network
        self.name = name
        self.hardware = hardware
        self.folder = network.folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.console = self.folder / "console.log"
        self.monitor = self.folder / "qmp"
        self.order = hardware.order
        self.taps = tuple(network.new_tap() for _ in hardware.macs)
        self.disks = tuple(self._disk(number, disk) for number, disk in enumerate(hardware.disks))
        if hardware.firmware in _OVMF:
            shutil.copy(_OVMF_FOLDER / _OVMF[hardware.firmware][1], self.folder / "variables.fd")
        self._program: InnerProgram | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.off()

    # -- power --

    @property
    def powered(self) -> bool:
        return self._program is not None and self._program.running()

    def on(self, deadline_seconds: float = 600.0) -> Self:
        """Power it on; QEMU is killed after the deadline. Raises RuntimeError with QEMU's words if it does not begin."""
        if self.powered:
            return self
        self.monitor.unlink(missing_ok=True)
        program = self.network.start(*self.command(), log=f"{self.name}/qemu.log", deadline_seconds=deadline_seconds)
        self._program = program
        looked, late = time.monotonic(), time.monotonic() + OFF_SECONDS * 6
        while not self.monitor.exists():
            if not program.running() or looked > late:
                self.off()
                raise RuntimeError(f"QEMU did not begin:\n{program.said[-2000:]}")
            looked = rest(looked)
        return self

    def off(self) -> None:
        """Cut its power, as by the plug."""
        if self._program is not None:
            self._program.kill()
        self._program = None

    def reset(self) -> None:
        """Press its reset button."""
        qmp.execute(self.monitor, "system_reset")

    def press_power(self) -> None:
        """Press its power button: its system may shut down."""
        qmp.execute(self.monitor, "system_powerdown")

    def boot_from(self, *order: Device) -> None:
        """Change the order of its devices for all further boots; with power, too (BIOS, after a reset)."""
        self.order = order
        if self.powered:
            for device, index in self._indexes().items():
                qmp.execute(
                    self.monitor,
                    "qom-set",
                    {"path": f"/machine/peripheral/{device}", "property": "bootindex", "value": index},
                )

    # -- observation --

    @property
    def cpu_seconds(self) -> float:
        """Of the host, since its power is on: about the time that its work takes on an idle host."""
        return self._program.cpu_seconds if self._program is not None else 0.0

    @property
    def said(self) -> str:
        """All of its serial console."""
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def await_console(self, text: str, timeout_seconds: float, since: int = 0) -> None:
        """Return when the console has the text behind its first ``since`` characters; RuntimeError with its end otherwise."""
        self.await_that(lambda: text in self.said[since:], timeout_seconds, f"{text!r} on its console")

    def await_that(self, holds: Callable[[], bool], timeout_seconds: float, what: str) -> None:
        """Return when ``holds()`` does; RuntimeError with the end of the console if it does not in time or the power is cut."""
        looked = time.monotonic()
        deadline = looked + timeout_seconds
        while not holds():
            if looked > deadline or not self.powered:
                state = f"within {timeout_seconds:g} s" if self.powered else "before its power was off"
                raise RuntimeError(f"{self.name}: no {what} {state}; its console ends:\n{self.said[-CONSOLE_BYTES:]}")
            looked = rest(looked)

    def signal(self, number: int) -> None:
        """Send a signal to QEMU: SIGSTOP and SIGCONT freeze and thaw the machine."""
        if self._program is not None:
            self._program.signal(number)

    def execute(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The answer to a command of QEMU's machine protocol."""
        return qmp.execute(self.monitor, command, arguments)

    # -- the command line of QEMU --

    def command(self) -> list[str]:
        """The words that start QEMU."""
        parts = self.hardware
        indexes = self._indexes()
        words = [
            *("qemu-system-x86_64", "-accel", f"tcg,tb-size={TRANSLATED_MB}"),
            *("-nodefaults", "-display", "none", "-name", self.name),
            *("-machine", "q35,smm=on" if parts.firmware == Firmware.SECURE else "q35,graphics=off"),
            *("-m", str(parts.memory_mb), "-smp", str(parts.cpus), "-rtc", f"base={parts.clock or 'utc'}"),
            *("-qmp", f"unix:{self.monitor},server=on,wait=off"),
            *("-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console"),
            *("-device", "virtio-rng-pci", "-device", "virtio-scsi-pci,id=scsi"),
            *self._firmware(),
        ]
        for number, (mac, tap) in enumerate(zip(parts.macs, self.taps, strict=True)):
            rom = "" if parts.ipxe_card else ",romfile="
            words += ["-netdev", f"tap,id=wire{number},ifname={tap},script=no,downscript=no"]
            words += [
                "-device",
                f"virtio-net-pci,id=nic{number},netdev=wire{number},mac={mac}{rom}{_index(indexes, f'nic{number}')}",
            ]
        for number, (disk, path) in enumerate(zip(parts.disks, self.disks, strict=True)):
            form = "raw" if disk.path is not None else "qcow2"
            cache = "writeback" if disk.durable else "unsafe"
            words += ["-drive", f"if=none,id=store{number},file={path},format={form},cache={cache},discard=unmap"]
            words += ["-device", _disk_device(number, disk) + _index(indexes, f"disk{number}")]
        return [*words, *self._direct(), *parts.more]

    def _indexes(self) -> dict[str, int]:
        """The place of each device in the order of boots; -1: it is not booted."""
        devices = {
            Device.NETWORK: [f"nic{number}" for number in range(len(self.hardware.macs))],
            Device.DISK: [f"disk{number}" for number in range(len(self.hardware.disks))],
        }
        ordered = [name for device in self.order for name in devices[device]]
        return {name: ordered.index(name) if name in ordered else -1 for names in devices.values() for name in names}

    def _firmware(self) -> Sequence[str]:
        if self.hardware.firmware not in _OVMF:
            return ()
        code, variables = _OVMF_FOLDER / _OVMF[self.hardware.firmware][0], self.folder / "variables.fd"
        flash = "if=pflash,format=raw"
        secure = (
            ("-global", "driver=cfi.pflash01,property=secure,value=on")
            if self.hardware.firmware == Firmware.SECURE
            else ()
        )
        return (
            *secure,
            "-drive",
            f"{flash},unit=0,readonly=on,file={code}",
            "-drive",
            f"{flash},unit=1,file={variables}",
        )

    def _direct(self) -> Sequence[str]:
        parts = self.hardware
        if parts.kernel is None:
            return ()
        initrd = ("-initrd", str(parts.initrd)) if parts.initrd is not None else ()
        return ("-kernel", str(parts.kernel), *initrd, "-append", parts.arguments)

    def _disk(self, number: int, disk: VirtualDisk) -> Path:
        if disk.path is not None:
            return disk.path
        path = self.folder / f"disk{number}.qcow2"
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", str(path), f"{disk.size_mb}M"],
            check=True,
            timeout=OFF_SECONDS * 6,
        )
        return path


def _index(indexes: Mapping[str, int], name: str) -> str:
    return f",bootindex={indexes[name]}" if indexes[name] >= 0 else ""


def _disk_device(number: int, disk: VirtualDisk) -> str:
    serial = f",serial={disk.serial}" if disk.serial else ""
    wwn = f",wwn={disk.wwn:#x}" if disk.wwn else ""
    rate = 7200 if disk.rotational else 1
    return f"scsi-hd,id=disk{number},bus=scsi.0,drive=store{number},rotation_rate={rate}{serial}{wwn}"
