"""No machine is dead, and no script runs twice, for a fault of the annealers' own host or of the path from it.

All annealers of these fleets share one host: one resolver, one network, one fault. The long form has every fault, on five
machines and three annealers, the short form a few of them.
"""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.testing.disks import mountable
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.machines.test_agreement import registered
from tests.journeys.fleet import Fleet

FAULTY: Final = (str(Path(__file__).with_name("faulty.py")),)
REPAIRED_SECONDS: Final = 15.0  # from the repair until every machine is well again for all
HELD_SECONDS: Final = 1.0  # that a fault lasts from when all annealers have met it: three trials
NAME_SERVER: Final = "127.77.53.{number}"
NO_NAME, TEMPORARY, REFUSED = 3, 2, 5  # answers of a name server

#: What the annealers may meet; those of the second list are faults of the path, as far as one host can tell.
OWN: Final = (
    "EAI_AGAIN", "EAI_FAIL", "EAI_SYSTEM", "EAI_MEMORY", "EAI_NONAME", "EAI_NODATA", "ENETUNREACH", "EADDRNOTAVAIL", "EPERM",
    "EACCES", "ENETDOWN", "ENOMEM", "ENOBUFS", "ENFILE", "no thread", "no timer",
)  # fmt: skip
PATH: Final = ("EHOSTUNREACH", "ENETUNREACH of a router", "timeout")


class Host:
    """The annealers of a fleet, and the one host that they share."""

    def __init__(self, fleet: Fleet, count: int, etc: Path | None = None) -> None:
        self.fleet, self.file = fleet, fleet.folder / "fault"
        self.file.write_text("")
        self.environment = {"FAULT_FILE": str(self.file)} | ({"FAULT_ETC": str(etc)} if etc else {})
        self.annealers = [self.annealer() for _ in range(count)]
        fleet.until(lambda: fleet.living() == count, "all annealers are there")

    def annealer(self, **environment: str) -> CutDaemon:
        made = self.fleet.annealer(launcher=FAULTY, probe_seconds=1.0)
        made.environment |= self.environment | environment
        return made.start()

    @contextmanager
    def injected(self, name: str) -> Iterator[None]:
        self.file.write_text(name)
        yield
        self.file.write_text("")

    @contextmanager
    def limited(self, what: int, most: int) -> Iterator[None]:
        """Each process may have no more of it."""
        for annealer in self.annealers:
            _, hard = resource.prlimit(annealer.pid, what)
            resource.prlimit(annealer.pid, what, (most, hard))
        yield
        for annealer in self.annealers:
            _, hard = resource.prlimit(annealer.pid, what)
            resource.prlimit(annealer.pid, what, (hard, hard))

    @contextmanager
    def without_key(self) -> Iterator[None]:
        """The key is away when the annealers start again."""
        key = Path(self.fleet.farm.settings()["key_files"][0])
        away = key.rename(key.with_name("away"))
        for annealer in self.annealers:
            annealer.kill()
            annealer.begin()
        yield
        away.rename(key)

    def troubled(self) -> bool:
        found = registered(self.fleet)
        return len(found) == len(self.annealers) and all(each.trouble for each in found)

    def well(self) -> bool:
        """Whether every node is alive, without suspicion, and every annealer is ready."""
        found = registered(self.fleet)
        nodes = map(self.fleet.node, self.fleet.nodes)
        ready = len(found) == len(self.annealers) and not any(each.trouble for each in found)
        return ready and all(node.alive and node.suspicion is None for node in nodes)


def suffered(host: Host, name: str, fault: AbstractContextManager[None], path: bool = False) -> None:
    """The annealers meet the fault while each machine is to do a job, and it is repaired."""
    fleet = host.fleet
    role = f"job-{len(fleet.unfinished()) + len(fleet.starts())}"
    fleet.add_role(role, fleet.work(0.0))
    since = {node: fleet.node(node).since for node in fleet.nodes}
    with fault:
        for machine in range(len(fleet.nodes)):
            fleet.farm.cut(machine)  # connections end, as after ssh.idle_seconds
        noderoles = [fleet.bind(role, node) for node in fleet.nodes]
        if path:
            fleet.until(lambda: any(fleet.node(node).suspicion for node in fleet.nodes), f"{name}: a suspicion")
        else:
            fleet.until(host.troubled, f"{name}: every annealer says that its host is at fault")
        met = time.monotonic()
        fleet.until(lambda: time.monotonic() > met + HELD_SECONDS, "the fault lasts")
    fleet.until(host.well, f"{name}: all is well after the repair", REPAIRED_SECONDS)
    assert {node: fleet.node(node).since for node in fleet.nodes} == since, f"{name}: a node was dead"
    fleet.until_all_active(90.0)
    assert [fleet.starts()[noderole] for noderole in noderoles] == [1] * len(noderoles), name


@pytest.fixture
def three(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=3) as fleet:
        yield fleet


def test_no_machine_is_dead_for_a_fault_of_the_host_that_its_annealers_share(three: Fleet) -> None:
    host = Host(three, 2)
    suffered(host, "no resolver", host.injected("EAI_AGAIN"))
    suffered(host, "no timer", host.injected("no timer"))
    suffered(host, "link down", host.injected("EHOSTUNREACH"), path=True)
    assert not three.faults()


def test_a_path_kills_a_machine_only_with_the_verdict_of_an_annealer_on_another_host(three: Fleet) -> None:
    host = Host(three, 2)
    with host.injected("timeout"):
        three.farm.cut(0)
        three.until(lambda: any(three.node(node).suspicion for node in three.nodes), "a suspicion")
        met = time.monotonic()
        three.until(lambda: time.monotonic() > met + HELD_SECONDS, "they look again and again")
        assert all(three.node(node).alive for node in three.nodes)
        host.annealer(FAULT_HOST="elsewhere")
        three.until(lambda: not all(three.node(node).alive for node in three.nodes), "the other host agrees")


# -- the long form --


class NameServer:
    """Answers every question with an error; a context manager. ``etc``: a folder with files that name it."""

    def __init__(self, etc: Path, number: int) -> None:
        self.error, self._etc = NO_NAME, etc
        self._address = NAME_SERVER.format(number=number)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> NameServer:
        self._socket.bind((self._address, 53))
        self._socket.settimeout(0.1)
        self._open = True
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while self._open:
            try:
                question, asker = self._socket.recvfrom(512)
            except TimeoutError:
                continue
            end = question.index(b"\0", 12) + 5
            head = question[:2] + bytes((0x81, 0x80 | self.error)) + b"\0\1" + bytes(6)
            self._socket.sendto(head + question[12:end], asker)

    @contextmanager
    def failing(self, error: int | None) -> Iterator[None]:
        """No name is in the file of hosts, and the server says this; None: there is no server in resolv.conf."""
        hosts, resolv = self._etc / "hosts", self._etc / "resolv.conf"
        known = hosts.read_text()
        write_over(hosts, "127.0.0.1 localhost\n")
        if error is None:
            write_over(resolv, "options timeout:1 attempts:1\n")
        else:
            self.error = error
            write_over(resolv, f"nameserver {self._address}\noptions timeout:1 attempts:1\n")
        yield
        write_over(hosts, known)


def write_over(file: Path, text: str) -> None:
    """In place: what is mounted is the file, and not its name."""
    with file.open("r+") as opened:
        opened.truncate()
        opened.write(text)


def by_name(fleet: Fleet, etc: Path) -> None:
    """Every node's address is a name, and the names are in the file of hosts."""
    known = ["127.0.0.1 localhost"]
    etc.mkdir()
    (etc / "resolv.conf").write_text("options timeout:1 attempts:1\n")
    for number, fqdn in enumerate(fleet.nodes):
        address, port = fleet.farm.address(number)
        known.append(f"{address} {fqdn}")
        fleet.set_node(fqdn, addresses=(f"{fqdn}:{port}",))
    (etc / "hosts").write_text("\n".join([*known, ""]))


@pytest.mark.long
@pytest.mark.skipif(not mountable(), reason="takes the right to mount")
def test_no_machine_is_dead_for_any_fault_of_the_host_that_three_annealers_share(
    zookeeper: Server, chroot: str, tmp_path: Path
) -> None:
    etc = tmp_path / "etc"
    with Fleet(zookeeper, chroot, tmp_path, machines=5) as fleet, NameServer(etc, 1 + os.getpid() % 250) as names:
        by_name(fleet, etc)
        host = Host(fleet, 3, etc)
        for name in OWN:
            suffered(host, name, host.injected(name))
        for name in PATH:
            suffered(host, name, host.injected(name), path=True)
        suffered(host, "an empty resolv.conf", names.failing(None))
        suffered(host, "a server that fails", names.failing(TEMPORARY))
        suffered(host, "a server that refuses", names.failing(REFUSED))
        suffered(host, "a server that knows no name", names.failing(NO_NAME))
        suffered(host, "EMFILE", host.limited(resource.RLIMIT_NOFILE, 8))
        suffered(host, "no key", host.without_key())
        assert not fleet.faults()
