"""The steps of a person and of a machine, from power to ACTIVE roles: each waits for its effect, and notes its time."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.records import Node, NodeRole, State
from nodepool_ocb.power.driver import Endpoint
from nodepool_ocb.power.qemu import QemuPower
from nodepool_ocb.testing.virtual.machine import VirtualDisk, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.site import DOMAIN, MetalSite

STEP_SECONDS: Final = 1800.0  # on a loaded host
DISK_MB: Final = 1500
MEMORY_MB: Final = 768


def mac(number: int) -> str:
    """The MAC of a machine."""
    return f"52:54:00:00:00:{number:02x}"


class Walker:
    """A machine on its way, and the times of its steps in seconds; a context manager that ends the machine."""

    def __init__(self, site: MetalSite, number: int = 1, **hardware: Any) -> None:
        self.site, self.number, self.mac = site, number, mac(number)
        self.bmc = site.network.folder / f"m{number}" / "bmc"
        parts = {
            "memory_mb": MEMORY_MB,
            "cpus": 1,
            "disks": (VirtualDisk(size_mb=DISK_MB, serial=f"disk{number}"),),
            **hardware,
        }
        power = ("-qmp", f"unix:{self.bmc},server=on,wait=off", "-no-shutdown", "-S")
        serial = ("-smbios", f"type=1,serial={number}")
        self.machine = VirtualMachine(
            site.network, f"m{number}", VirtualHardware(macs=(self.mac,), more=(*power, *serial), **parts)
        )
        self.fqdn = f"n{number}.{DOMAIN}"
        self.times: list[tuple[str, float, float]] = []
        self._since, self._spent = time.monotonic(), 0.0

    def __enter__(self) -> Walker:
        self.machine.on(6 * STEP_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.off()

    def noted(self, what: str) -> None:
        """Note the seconds of a step, and those of a CPU that its QEMU took."""
        now, spent = time.monotonic(), self.machine.cpu_seconds
        self.times.append((what, round(now - self._since, 1), round(spent - self._spent, 1)))
        self._since, self._spent = now, spent

    @property
    def power(self) -> QemuPower:
        """Its power button, by the product's driver."""
        return QemuPower(Endpoint(driver="qemu", address=f"unix:{self.bmc}"))

    def switch_on(self) -> None:
        """Power, and nothing else: its disk is empty."""
        self._since = time.monotonic()
        self.power.on()

    def until(self, holds: Any, what: str, seconds: float = STEP_SECONDS) -> None:
        """Wait for it, and note the time; the end of the console is in the error."""
        self.machine.await_that(holds, seconds, what)
        self.noted(what)

    # -- the records --

    @property
    def registration(self) -> MachineRegistration | None:
        """Its registration."""
        return self.site.record(MachineRegistration, paths.registration(self.mac))

    @property
    def node(self) -> Node:
        """The record of its node."""
        found = self.site.record(Node, paths.node(self.fqdn))
        assert found is not None
        return found

    @property
    def installation(self) -> Installation | None:
        """The record of its newest installation."""
        return self.site.record(Installation, paths.installation(self.fqdn))

    @property
    def step(self) -> InstallStep | None:
        """The step of its newest installation; raises AssertionError with the reason if it failed."""
        found = self.installation
        assert found is None or found.reason is None, found.reason
        return found.step if found is not None else None

    def all_active(self) -> bool:
        """Whether each of its noderoles is ACTIVE; raises AssertionError with its words if one is in ERROR."""
        states = self.site.states(self.fqdn)
        for role, state in states.items():
            assert state is not State.ERROR, self.site.ocb("noderole", "explain", f"{role}@{self.fqdn}")
        return bool(states) and set(states.values()) == {State.ACTIVE}

    def failure(self, role: str) -> str | None:
        """The reason of a noderole that is in ERROR; None in other states."""
        found = self.site.record(NodeRole, paths.noderole(role, self.fqdn))
        return (found.reason or "") if found is not None and found.state is State.ERROR else None

    def runs(self) -> dict[str, int]:
        """Role → how often it ran."""
        session = self.site.session
        return {role: len(session.children(paths.runs(role, self.fqdn)) or ()) for role in self.site.states(self.fqdn)}

    def heard(self, words: str) -> int:
        """How often the console had a line of the agent with these words."""
        return len(re.findall(rf"^ocb: .*{re.escape(words)}", self.machine.said, re.MULTILINE))

    @property
    def agent_said(self) -> str:
        """The lines of the agent on its console: each begins with the seconds since its kernel began."""
        return "\n".join(re.findall(r"^(?:ocb: .*|\[.*Linux version.*)$", self.machine.said, re.MULTILINE))

    def asks(self, command: str, host_key: str | None, address: str = "", given: str = "") -> str:
        """The output of a command on the machine, under this host key alone; None: under any. Raises SubprocessError.

        Without an address it is that of its node. ``given``: its standard input.
        """
        address = address or self.node.addresses[0]
        known = self.machine.folder / "known_hosts"
        known.write_text(f"{address} {host_key}\n" if host_key else "")
        login = ["ssh", "-i", str(self.site.key), "-o", "BatchMode=yes"]
        login += ["-o", f"StrictHostKeyChecking={'yes' if host_key else 'no'}"]
        login += ["-o", f"UserKnownHostsFile={known}", "-o", "ConnectTimeout=30", f"root@{address}", command]
        return subprocess.run(login, input=given, capture_output=True, text=True, timeout=900, check=True).stdout


def build_of(site: MetalSite, image: str) -> Path:
    """The file of the image's newest build, in the folder of the builder."""
    found = (site.folder / "builder" / "images").glob(f"{image}-*")
    return max(file for file in found if file.suffix in (".pxe", ".tar"))  # not their checksums
