"""A namespace for networks, mounts and processes: its programs see only the networks that the test made.

It ends with the process that made it, also after SIGKILL. The first program inside reads a pipe of that process. With its end
the kernel ends all other programs inside. Each program has a deadline by ``timeout``. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nodepool_ocb.testing.looks import rest

START_SECONDS: Final = 60.0

#: The first process inside waits for all children, also for those of programs that have ended.
_FIRST: Final = "mount --make-rprivate / && ip link set lo up && echo ready && exec 3<&0 && { cat <&3 & } && wait"


class InnerProgram:
    """A program inside a namespace, with its output in a file; a context manager that kills it at its end."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C is for the process that ends it
            )

    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """User's and system's of its processes that run."""
        return sum(_cpu_seconds(pid) for pid in _family(self._process.pid))

    @property
    def said(self) -> str:
        """All of its output."""
        return self.log.read_text(errors="replace")

    def wait(self, timeout_seconds: float) -> int:
        """The exit status; raises TimeoutExpired."""
        return self._process.wait(timeout_seconds)

    def signal(self, number: int) -> None:
        """Send a signal to the program and the processes of its group; nothing happens if it has ended."""
        deadline = time.monotonic() + START_SECONDS
        looked = time.monotonic()
        while self.running() and not (group := self._group()) and looked < deadline:
            looked = rest(looked)  # nsenter has not forked yet
        with contextlib.suppress(ProcessLookupError):
            if self.running() and group:
                os.killpg(group, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.running():
            self._process.wait(START_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _group(self) -> int:
        """The process group that ``timeout`` made; 0 before that."""
        pid = self._process.pid
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if os.getpgid(int(child)) == int(child):
                    return int(child)
        return 0


class Namespace:
    """A context manager. Its programs share one network, one view of mounts and one numbering of processes."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder / name
        self._keeper: subprocess.Popen[str] | None = None
        self._links = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        kinds = ["--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        self._keeper = subprocess.Popen(
            ["unshare", *kinds, "sh", "-c", _FIRST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            self.close()
            raise RuntimeError(f"the namespace {self.name} did not begin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all its programs, and with them its networks."""
        if self._keeper is None:
            return
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._keeper.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._keeper = None

    @property
    def pid(self) -> int:
        """The process on this host that holds the namespace: ``/proc/PID/ns/net``. Raises RuntimeError before its start."""
        if self._keeper is None:
            raise RuntimeError(f"the namespace {self.name} does not run")
        return int(Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text().split()[0])

    def command(self, *words: str, deadline_seconds: float) -> list[str]:
        """The words with which this host starts a command inside; it is killed after its deadline."""
        inside = ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid", f"--wdns={Path.cwd()}"]
        return [*inside, "timeout", "--signal=KILL", f"{deadline_seconds:g}", *words]

    def start(self, *words: str, log: str = "", deadline_seconds: float = 600.0, **environment: str) -> InnerProgram:
        """Start a program; ``log`` is the name of its output in the folder, by default that of the program."""
        output = self.folder / (log or f"{Path(words[0]).name}.log")
        return InnerProgram(self.command(*words, deadline_seconds=deadline_seconds), output, environment)

    def run(self, *words: str, timeout_seconds: float = 30.0, given: str = "") -> str:
        """The output of a command; raises RuntimeError with its output if it fails."""
        command = self.command(*words, deadline_seconds=timeout_seconds)
        ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout_seconds + 10.0)
        if ran.returncode:
            raise RuntimeError(f"{' '.join(words)} in {self.name}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def new_link(self) -> str:
        """A name for one more interface, unique inside."""
        self._links += 1
        return f"port{self._links}"


def _family(pid: int) -> list[int]:
    """A process and its descendants on this host."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in children for each in _family(int(child)))]
    return []


def _cpu_seconds(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def missing(programs: tuple[str, ...]) -> tuple[str, ...]:
    """The programs of this list that are not installed here."""
    return tuple(name for name in programs if not shutil.which(name))
