"""COMMAND of a lease, from the side of ``lease run``: it is started below a guardian (guardian.py), which gets its time.

``beat`` tells the guardian until when the locks of the nodes certainly hold. A caller that is frozen or dead sends no beat, so
COMMAND is ended before another client can get the nodes. A host that slept distrusts every earlier answer of ZooKeeper.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from nodepool_ocb.leasing import guardian
from nodepool_ocb.leasing.guardian import GuardianOrder, adopt_orphans, descendants, send

GRACE_SECONDS: Final = 10.0  # from SIGTERM to SIGKILL
GUARDIAN_SECONDS: Final = 10.0  # for its start, and for its end after the last SIGKILL
SLEPT_SECONDS: Final = 0.5  # a difference of two clocks from which on the host slept


class CommandRefused(msgspec.Struct, frozen=True):
    """The command could not be started."""

    missing: bool  # there is no such program
    reason: str


class LeaseHeartbeat:
    """The times until which the locks of a session certainly hold.

    ZooKeeper ends a session after ``timeout_seconds`` without a request. A lock is trusted for two thirds of that from the
    newest answered request on; a third is left to end processes.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._trust_seconds = timeout_seconds * 2 / 3
        self.margin_seconds = timeout_seconds / 6
        self._offset = _boot() - time.monotonic()
        self._awake_since = 0.0  # of time.monotonic

    def until(self, silent_seconds: float) -> float | None:
        """The end of the trust, by CLOCK_BOOTTIME; None if no answer came since the host slept."""
        now, boot = time.monotonic(), _boot()
        if boot - now - self._offset > SLEPT_SECONDS:
            self._awake_since = now
        self._offset = boot - now
        if now - silent_seconds < self._awake_since:
            return None
        return boot + self._trust_seconds - silent_seconds


def _boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class GuardedCommand:
    """A command below its guardian. Use it as a context; at the end of the context no process of it is left."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], directory: Path | None, margin_seconds: float
    ) -> None:
        self._order = GuardianOrder(
            command=[*command],
            environment={**environment},
            directory=None if directory is None else str(directory),
            grace_seconds=GRACE_SECONDS,
            margin_seconds=margin_seconds,
            until=0.0,
        )
        self._others: frozenset[int] = frozenset()  # processes below this one that are not of the command
        self._unread = b""
        self._answers: list[dict[str, Any]] = []
        self.code: int | None = None  # the exit code, 128 + N for signal N; None while it runs
        self.left = 0  # processes that could not be ended
        self.late = False  # it was ended since no beat came in time
        self._control: socket.socket | None = None
        self._guardian: subprocess.Popen[bytes] | None = None

    def start(self, until: float) -> CommandRefused | None:
        """Start it; None if it runs."""
        self._others = frozenset(descendants(os.getpid()))
        adopt_orphans()  # if the guardian is killed, the processes below it become ours
        ours, theirs = socket.socketpair()
        with theirs:
            program = [sys.executable, "-I", "-S", str(Path(guardian.__file__)), str(theirs.fileno())]
            self._guardian = subprocess.Popen(program, pass_fds=[theirs.fileno()])
        self._control = ours
        self._tell(**{**self._order, "until": until})
        deadline = time.monotonic() + GUARDIAN_SECONDS
        while time.monotonic() < deadline and not self._answers and self.code is None:
            self.wait(0.5)
        silent: dict[str, Any] = {"refused": 0, "reason": "its guardian does not start"}
        first = self._answers.pop(0) if self._answers else silent
        if "refused" in first:
            return CommandRefused(missing=first["refused"] == 2, reason=first["reason"])
        return None

    def beat(self, until: float) -> None:
        """The locks hold until then, by CLOCK_BOOTTIME."""
        self._tell(until=until)

    def signal(self, number: int) -> None:
        """Send a signal to the group of the command."""
        self._tell(signal=number)

    def end(self) -> None:
        """Ask for its end: SIGTERM, then SIGKILL."""
        self._tell(end=True)

    def wait(self, seconds: float) -> int | None:
        """Wait for the end of the command so long; its exit code, or None if it runs."""
        control = self._control
        assert control is not None, "start was called"
        if self.code is None and select.select([control], [], [], seconds)[0]:
            read = self._received(control)
            if not read and self.code is None:
                self._guardian_died()
        return self.code

    def _received(self, control: socket.socket) -> bool:
        try:
            read = control.recv(1 << 16)
        except OSError:
            read = b""
        *whole, self._unread = (self._unread + read).split(b"\n")
        for line in map(json.loads, whole):
            if "ended" in line:
                self.code, self.left, self.late = line["ended"], line["left"], line["late"]
            else:
                self._answers.append(line)
        return bool(read)

    def _guardian_died(self) -> None:
        """The kernel killed the command; the processes that it started are ours, and are killed here."""
        deadline = time.monotonic() + GUARDIAN_SECONDS
        while (found := self._descendants()) and time.monotonic() < deadline:
            send(found, signal.SIGKILL)
            time.sleep(guardian.TICK_SECONDS)
            for pid in found:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        self.code, self.left = 128 + signal.SIGKILL, len(found)

    def _descendants(self) -> list[int]:
        return [pid for pid in descendants(os.getpid()) if pid not in self._others]

    def __enter__(self) -> GuardedCommand:
        return self

    def __exit__(self, *_: object) -> None:
        if self._control is None or self._guardian is None:
            return
        if self.code is None:
            self.end()
            deadline = time.monotonic() + GRACE_SECONDS + GUARDIAN_SECONDS
            while self.wait(0.5) is None and time.monotonic() < deadline:
                pass
        self._control.close()
        try:
            self._guardian.wait(GUARDIAN_SECONDS)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
            self._guardian_died()

    def _tell(self, **line: object) -> None:
        assert self._control is not None, "start was called"
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(line).encode() + b"\n")


class CaughtSignals:
    """The signals that this process got within ``caught``, the oldest first."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def note(self, number: int, _: FrameType | None) -> None:
        self.numbers.append(number)


@contextlib.contextmanager
def caught() -> Iterator[CaughtSignals]:
    """Signals that ask for an end are noted, and do nothing else. For the main thread of a process."""
    found = CaughtSignals()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.signal(number, found.note) for number in numbers}
    before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
