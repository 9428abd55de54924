"""Machines to act on: real sshd processes on addresses of 127.0.0.0/8, each with a home of its own.

They run as the user that starts them; root is not needed. A machine can be killed, frozen, thawed, cut off and started
again. It can lose the state directory of its runner, or another machine can stand in its place. No process is left at
the end, also none that a script left running. Every process of a machine carries its name in the environment, or
descends from one that does.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from nodepool_ocb.model.records import Node
from nodepool_ocb.testing.ports import free_port

MARK: Final = "NODEPOOL_OCB_MACHINE"
STATE_DIR: Final = "~/.nodepool-ocb"
LOST: Final = "lost-"  # the name of a state directory that its machine has lost, with a number
START_SECONDS: Final = 20.0
CONFIG: Final = """\
ListenAddress {host}:{port}
HostKey {home}/host_key
AuthorizedKeysFile {keys} {home}/.ssh/authorized_keys
# A root profile may take 250 ms a command; with SHLVL set, bash takes itself for no login's first shell.
SetEnv SHLVL=3 HOME={home} OCB_ROOT={home}/root {mark}
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
PrintLastLog no
MaxStartups 1000
MaxSessions 1000
Subsystem sftp internal-sftp
LogLevel ERROR
"""


class Event(msgspec.Struct, frozen=True):
    """A line of a machine's history (runner.sh)."""

    time: int  # seconds since the epoch
    uptime: float  # seconds, of a clock that all machines of a farm share
    event: str  # start end ended lost attach adopt fence
    epoch: int
    key: str  # role@generation
    run: str
    group: str
    detail: str


class Farm:
    """``count`` machines in a folder, ``m0.farm.example.com`` and so on; a context manager.

    Where a method takes ``machine`` it is the machine's number.
    """

    def __init__(self, count: int, directory: Path) -> None:
        self.directory = directory
        self._name = secrets.token_hex(6)
        self._key = directory / "id_ed25519"
        self._machines = [_Machine(directory / f"m{n}", f"{MARK}={self._name}.{n}.", n) for n in range(count)]

    def __enter__(self) -> Farm:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            _new_key(self._key)
            for machine in self._machines:
                machine.prepare(self._key.with_suffix(".pub"))
                machine.start()
            for machine in self._machines:
                machine.await_start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process of every machine; the folder stays."""
        mark = f"{MARK}={self._name}."
        _end(lambda: _processes(mark, [machine.pid for machine in self._machines]))
        for machine in self._machines:
            machine.forget()

    # -- records and settings --

    def records(self) -> list[tuple[str, Node]]:
        """Names and records, the host keys pinned."""
        return [(machine.fqdn, machine.record) for machine in self._machines]

    def settings(self) -> dict[str, Any]:
        """The section ``ssh`` of a configuration for these machines."""
        return {"key_files": [str(self._key)], "state_dir": STATE_DIR}

    def state_dir(self, fqdn: str) -> Path:
        """The state directory of this machine's runner."""
        return self._machines[self.number(fqdn)].state

    def memories(self, fqdn: str) -> list[Path]:
        """The state directories that this machine has lost, oldest first, and the one that counts, which may be absent."""
        state = self.state_dir(fqdn)
        lost = sorted(state.parent.glob(f"{LOST}*"), key=lambda folder: int(folder.name.removeprefix(LOST)))
        return [*lost, state]

    def number(self, fqdn: str) -> int:
        """Which machine has this name."""
        return int(fqdn.partition(".")[0].removeprefix("m"))

    def address(self, machine: int) -> tuple[str, int]:
        """Where it listens."""
        one = self._machines[machine]
        return one.host, one.port

    def history(self, machine: int) -> list[Event]:
        """The history that the runner wrote, whole lines only."""
        file = self.state_dir(self._machines[machine].fqdn) / "history"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [_event(line.split(" ", 7)) for line in lines]

    def processes(self, machine: int) -> list[int]:
        """The ids of its processes: sshd, its connections, and everything that was started over them."""
        one = self._machines[machine]
        return _processes(one.mark, [one.pid])

    def at_work(self, machine: int) -> list[int]:
        """The ids of the processes of scripts that run on it, by a run's own mark."""
        return [pid for pid in self.processes(machine) if b"OCB_RUN=" in _environment(pid)]

    def keeper(self, machine: int) -> int | None:
        """The process that waits for its newest run, while that goes on."""
        state = self._machines[machine].state
        with contextlib.suppress(OSError, ValueError):
            _, key, _, _, _, keeper, born, _ = (state / "current").read_text().split("\n")[0].split()
            if (result := state / "runs" / f"{key}.result").exists() and result.stat().st_size:
                return None
            if Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[19] == born:
                return int(keeper)
        return None

    # -- faults --

    def kill(self, machine: int) -> None:
        """The power fails: every process is killed; files stay."""
        _end(lambda: self.processes(machine))
        self._machines[machine].forget()

    def start(self, machine: int) -> None:
        """The power is back."""
        self._machines[machine].start()
        self._machines[machine].await_start()

    def freeze(self, machine: int) -> None:
        """Every process stops; the kernel still acknowledges the bytes that are sent to it."""
        _stop(lambda: self.processes(machine))

    def thaw(self, machine: int) -> None:
        _signal(self.processes(machine), signal.SIGCONT)

    def cut(self, machine: int) -> None:
        """Every connection ends; runs continue, and new connections are accepted."""
        if listener := self._machines[machine].pid:
            _signal((pid for pid, parent in _parents().items() if parent == listener), signal.SIGKILL)

    def unplug(self, machine: int) -> None:
        """As cut, and it takes no new connections until ``start``: its place is free for another."""
        if listener := self._machines[machine].pid:
            _signal([listener], signal.SIGSTOP)
            self.cut(machine)
            _signal([listener], signal.SIGKILL)
            self._machines[machine].forget()

    def start_another(self, machine: int) -> None:
        """In its place another machine starts: the same users and files, and another host key. ``unplug`` ends it."""
        self._machines[machine].start(another=True)
        self._machines[machine].await_start()

    def force(self, machine: int, command: str) -> None:
        """Its logins run this command in place of any other from now on; the machine starts anew for that."""
        config = self._machines[machine].directory / "sshd_config"
        config.write_text(f"{config.read_text()}ForceCommand {command}\n")
        self.kill(machine)
        self.start(machine)

    def kill_keeper(self, machine: int) -> None:
        """Kill the process that waits for its newest run, if one goes on."""
        if keeper := self.keeper(machine):
            _signal([keeper], signal.SIGKILL)

    def lose_state(self, machine: int) -> None:
        """Its state directory is gone, as by rm -rf; the former one is among the ``memories``."""
        *lost, state = self.memories(self._machines[machine].fqdn)
        with contextlib.suppress(FileNotFoundError):
            state.rename(state.with_name(f"{LOST}{len(lost)}"))


def _event(words: list[str]) -> Event:
    seconds, uptime, event, epoch, key, run, group, detail = words
    return Event(int(seconds), float(uptime), event, int(epoch), key, run, group, detail)


class _Machine:
    """One sshd."""

    def __init__(self, directory: Path, mark: str, number: int) -> None:
        self.directory, self.mark = directory, mark
        self.fqdn = f"m{number}.farm.example.com"
        self.host = f"127.0.{1 + number // 250}.{1 + number % 250}"
        self.port = 0
        self.record = Node()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the sshd that listens; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    @property
    def state(self) -> Path:
        return self.directory / STATE_DIR.removeprefix("~/")

    def prepare(self, authorized: Path) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        key = self.directory / "host_key"
        _new_key(key)
        self.port = free_port(self.host)
        text = CONFIG.format(host=self.host, port=self.port, home=self.directory, keys=authorized, mark=self.mark)
        (self.directory / "sshd_config").write_text(text)
        (self.directory / "another_config").write_text(text.replace("/host_key\n", "/another_key\n"))
        host_key = " ".join(key.with_suffix(".pub").read_text().split()[:2])
        self.record = Node(
            addresses=(f"{self.host}:{self.port}",), user=getpass.getuser(), host_keys=(host_key,), alive=True
        )

    def start(self, another: bool = False) -> None:
        if another:
            _new_key(self.directory / "another_key")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if sshd is None:
            raise FileNotFoundError("there is no sshd: install openssh-server")
        with (self.directory / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sshd, "-D", "-e", "-f", str(self.directory / ("another_config" if another else "sshd_config"))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def await_start(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(self.host, self.port):
            assert self._process is not None, "it was started"
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd does not listen: {(self.directory / 'sshd.log').read_text()}")
            time.sleep(0.02)

    def forget(self) -> None:
        """Collect the process, which has been killed."""
        if self._process is not None:
            self._process.wait()
            self._process = None


def _listens(host: str, port: int) -> bool:
    """As the kernel says: sshd would start a process for a connection that only looks."""
    listener = f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X} 00000000:0000 0A"
    return listener in Path("/proc/net/tcp").read_text()


def _new_key(file: Path) -> None:
    if not file.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)], check=True)


# -- processes --


def _stop(processes: Callable[[], list[int]]) -> list[int]:
    """Stop all, until none of them runs and no other appears: a process may have started another just before."""
    deadline, before = time.monotonic() + START_SECONDS, [-1]
    while (found := processes()) != before or not all(map(_stopped, found)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes that cannot be stopped: {found}")
        _signal(found, signal.SIGSTOP)
        before = found
    return found


def _end(processes: Callable[[], list[int]]) -> None:
    """Kill until there is none.

    All are stopped first: the child of a killed process has another parent, and a connection of sshd bears no mark.
    """
    found = _stop(processes)
    deadline = time.monotonic() + START_SECONDS
    while found:
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes that cannot be killed: {found}")
        _signal(found, signal.SIGKILL)
        time.sleep(0.01)
        found = processes()


def _signal(processes: Iterable[int], kind: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, kind)


def _processes(mark: str, listeners: Iterable[int]) -> list[int]:
    """The listeners, the processes that carry the mark, and the descendants of both; without zombies."""
    parents = _parents()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    found = {pid for pid in listeners if pid in parents}
    found |= {pid for pid in parents if mark.encode() in _environment(pid)}
    below = list(found)
    while below:
        new = [child for child in children[below.pop()] if child not in found]
        found.update(new)
        below += new
    return sorted(found)


def _environment(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return _read(f"/proc/{pid}/environ")
    return b""


def _parents() -> dict[int, int]:
    """The parent of every process that is not a zombie."""
    return dict(_running())


def _running() -> Iterator[tuple[int, int]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                state, parent, *_ = _stat(entry)
                if state not in "ZX":
                    yield int(entry), int(parent)


def _stopped(pid: int) -> bool:
    """Whether the process is stopped, or gone, or runs none of its own code before it stops.

    The last is a shell in vfork (state D): it waits in the kernel for its child, and the child is stopped.
    """
    with contextlib.suppress(OSError):
        return _stat(str(pid))[0] in "TtZXD"
    return True


def _stat(pid: str) -> list[str]:
    return _read(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()


def _read(file: str) -> bytes:
    """A file of ``/proc``, whole, without the costs of ``pathlib``: a search reads two for each process of the host."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 16384), b""))
    finally:
        os.close(descriptor)
