"""A network for virtual machines: a bridge in a namespace of its own, with hosts and machines on it.

Hosts are further namespaces (an admin node with its dnsmasq, a stranger), or the host of the test itself, which gets one address.
No packet leaves it, unless a host forwards it. Only one test on a computer has virtual machines at a time.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.virtual.namespaces import Namespace, missing

BRIDGE: Final = "br0"
TURN_SECONDS: Final = 1800.0  # a long test before this one may boot several machines
_LOCK: Final = "ocb-qemu.lock"


def why_not(*programs: str) -> str | None:
    """Why there can be no virtual machine here, or one of the programs is missing; None if all is there."""
    if os.geteuid() != 0:
        return "a virtual network needs root"
    if not Path("/dev/net/tun").exists():
        return "a virtual network needs /dev/net/tun"
    absent = missing(("qemu-system-x86_64", "qemu-img", "ip", "unshare", "nsenter", *programs))
    if absent:
        return f"{', '.join(absent)} not installed (tools/setup --system installs it)"
    if subprocess.run(["unshare", "-n", "-m", "-p", "-f", "true"], capture_output=True, check=False).returncode:
        return "this host refuses namespaces"
    return None


@contextmanager
def machines_turn(timeout_seconds: float = TURN_SECONDS) -> Iterator[None]:
    """Wait until no other test of this host has virtual machines. Raises TimeoutError."""
    deadline = looked = time.monotonic()
    deadline += timeout_seconds
    with (Path(tempfile.gettempdir()) / _LOCK).open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if looked > deadline:
                    raise TimeoutError(f"another test has virtual machines since {timeout_seconds:g} s") from None
                looked = rest(looked)
            else:
                break
        yield


class VirtualNetwork(Namespace):
    """A context manager: one segment of Ethernet. The machines of tests are its programs."""

    def __init__(self, folder: Path, name: str = "network") -> None:
        super().__init__(folder, name)
        self._outside: list[str] = []

    def __enter__(self) -> VirtualNetwork:
        super().__enter__()
        try:
            self.run("ip", "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
            self.run("ip", "link", "set", BRIDGE, "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all its programs and links, also those at the host of the test."""
        for link in self._outside:
            subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)
        self._outside.clear()
        super().close()

    def attach(self, host: Namespace, *addresses: str, interface: str = "eth0") -> None:
        """Connect a namespace by an interface with addresses such as ``10.1.0.2/24``."""
        port = self.new_link()
        self.run("ip", "link", "add", port, "type", "veth", "peer", "name", f"{port}x")
        self.run("ip", "link", "set", port, "master", BRIDGE, "up")
        self._move(f"{port}x", host.pid)
        host.run("ip", "link", "set", f"{port}x", "name", interface)
        for address in addresses:
            host.run("ip", "address", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))
        host.run("ip", "link", "set", interface, "up")

    def attach_test(self, *addresses: str) -> str:
        """Connect the host of the test itself, so that its daemons reach the network; gives the interface."""
        port, outside = self.new_link(), f"ocb{secrets.token_hex(4)}"
        subprocess.run(
            ["ip", "link", "add", outside, "type", "veth", "peer", "name", port, "netns", str(self.pid)], check=True
        )
        self._outside.append(outside)
        self.run("ip", "link", "set", port, "master", BRIDGE, "up")
        for address in addresses:
            subprocess.run(["ip", "address", "add", address, "dev", outside], check=True)
        subprocess.run(["ip", "link", "set", outside, "up"], check=True)
        return outside

    def new_tap(self) -> str:
        """A new tap device on the bridge, for one network card of a machine."""
        tap = self.new_link()
        self.run("ip", "tuntap", "add", tap, "mode", "tap")
        self.run("ip", "link", "set", tap, "master", BRIDGE, "up")
        return tap

    def unplug(self, port: str, *, plugged: bool = False) -> None:
        """Take the cable out of a port of the bridge, or plug it in again."""
        self.run("ip", "link", "set", port, "up" if plugged else "down")

    def _move(self, link: str, pid: int) -> None:
        """Give a link to the namespace of a process of this host: inside, that process has no number."""
        mine = ["nsenter", f"--target={self.pid}", "--net"]
        subprocess.run([*mine, "ip", "link", "set", link, "netns", str(pid)], check=True, timeout=30.0)
