"""The process between ``lease run`` and COMMAND: it ends COMMAND, and all that COMMAND started, when the lease ends.

It is started as a program, and imports the standard library alone, so that it starts quickly. It reads lines of JSON from a
socket: first ``GuardianOrder``, then ``{"until": SECONDS}``, ``{"signal": NUMBER}`` and ``{"end": true}``. It answers
``{"began": PID}`` or ``{"refused": ERRNO, "reason": TEXT}``, and at the end ``{"ended": CODE, "left": COUNT, "late": BOOL}``.

COMMAND gets SIGTERM, then SIGKILL, when that is asked for, and in two more cases. The socket closes: ``lease run`` is dead. Or
the time ``until`` passes without a newer one: the session may be over, or ``lease run`` is frozen. The guardian adopts processes
after the end of their parent (PR_SET_CHILD_SUBREAPER), so a process cannot escape by leaving its group. If the guardian is
killed, the kernel kills COMMAND (PR_SET_PDEATHSIG). Times are seconds of CLOCK_BOOTTIME, which goes on while the host sleeps.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Final, TypedDict

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
TICK_SECONDS: Final = 0.05  # between two looks at processes that end
LOOK_SECONDS: Final = 1.0  # between two looks at processes that the keyboard stopped before their exec
STUCK_SECONDS: Final = 5.0  # after SIGKILL: a process that the kernel does not let go is left


class GuardianOrder(TypedDict):
    """The first line."""

    command: list[str]
    environment: dict[str, str]
    directory: str | None  # removed at the end
    grace_seconds: float  # from SIGTERM to SIGKILL
    margin_seconds: float  # the same after ``until``
    until: float


def adopt_orphans() -> None:
    """Let this process become the parent of descendants when their parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes() -> list[tuple[int, int, str]]:
    """Id, parent and state of each process of this host, as the kernel names the state: R, S, D, T, Z..."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:
                state, parent, *_ = stat.read().rpartition(b")")[2].split()
                found.append((int(name), int(parent), state.decode()))
    return found


def descendants(of: int) -> list[int]:
    """The ids of all processes below a process, without those that have ended and wait to be reaped."""
    below: dict[int, list[int]] = {}
    for pid, parent, state in processes():
        below.setdefault(parent, []).append(0 if state == "Z" else pid)
    found, left = [], [of]
    while left:
        children = [pid for pid in below.get(left.pop(), ()) if pid]
        found += children
        left += children
    return found


def stopped_before_exec(found: list[tuple[int, int, str]]) -> list[int]:
    """The stopped processes whose parents wait in vfork for their exec: such a parent cannot stop, and waits for ever.

    >>> stopped_before_exec([(2, 1, "D"), (3, 2, "T"), (4, 1, "S"), (5, 4, "T")])
    [3]
    """
    waiting = {pid for pid, _, state in found if state == "D"}
    return [pid for pid, parent, state in found if state == "T" and parent in waiting]


def send(pids: list[int], number: int) -> None:
    """Send a signal to processes that may be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Guardian:
    """One command and all that it starts."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._unread = b""
        self._ending: float | None = None  # when SIGTERM was sent
        self._code: int | None = None  # of COMMAND
        self._late = False  # it was ended since no newer ``until`` came
        first: list[Any] = []
        while not first:
            first = self._lines(block=True)
        order: GuardianOrder = first[0]
        self._order = order
        self._until = order["until"]
        self._pid = 0
        self._terminal = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
        self._looked = 0.0  # when processes that stopped before their exec were looked for

    def run(self) -> None:
        """Start the command, and stay until it and all below it have ended."""
        try:
            if self._start():
                self._watch()
        finally:
            if self._order["directory"] is not None:
                shutil.rmtree(self._order["directory"], ignore_errors=True)

    def _start(self) -> bool:
        try:
            started = subprocess.Popen(
                self._order["command"], env=self._order["environment"], preexec_fn=self._before_exec
            )
        except OSError as error:
            self._tell(refused=error.errno or 0, reason=error.strerror or str(error))
            return False
        started.returncode = 0  # reaped here, not by subprocess
        self._pid = started.pid
        self._tell(began=self._pid)
        return True

    def _before_exec(self) -> None:
        """In the child: a group of its own, which gets the terminal; the kernel kills it if the guardian ends."""
        os.setpgid(0, 0)
        if self._terminal:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

    def _watch(self) -> None:
        while True:
            self._reap()
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            if self._terminal and now >= self._looked + LOOK_SECONDS:
                self._looked = now
                ours = {*descendants(os.getpid())}
                send([pid for pid in stopped_before_exec(processes()) if pid in ours], signal.SIGCONT)
            if self._ending is None and (self._code is not None or now >= self._until):
                self._late = self._code is None
                self._end(now)
            if self._ending is not None:
                left = descendants(os.getpid())
                if not left or self._gave_up(now):
                    break
                if now >= self._kill_at():
                    send(left, signal.SIGKILL)
            if self._heard():
                self._end(now)
        self._reap()
        if self._terminal:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
        self._tell(ended=128 + signal.SIGKILL if self._code is None else self._code, left=len(left), late=self._late)

    def _kill_at(self) -> float:
        assert self._ending is not None
        return min(self._ending + self._order["grace_seconds"], self._until + self._order["margin_seconds"])

    def _gave_up(self, now: float) -> bool:
        return now >= max(self._kill_at(), self._ending or 0.0) + STUCK_SECONDS

    def _end(self, now: float) -> None:
        if self._ending is None:
            self._ending = now
            self._signal(signal.SIGTERM)
            pids = descendants(os.getpid())
            send(pids, signal.SIGTERM)
            send(pids, signal.SIGCONT)  # a stopped process takes no other signal

    def _signal(self, number: int) -> None:
        """Send a signal to the group of the command."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return
                if os.WIFSTOPPED(status):
                    if os.WSTOPSIG(status) == signal.SIGTSTP:  # from the keyboard: no shell could continue it
                        self._signal(signal.SIGCONT)
                elif pid == self._pid:
                    code = os.waitstatus_to_exitcode(status)
                    self._code = code if code >= 0 else 128 - code

    def _heard(self) -> bool:
        """Wait for a line or a tick; true if the command must end."""
        if self._control.fileno() < 0:
            time.sleep(TICK_SECONDS)
            return False
        if not select.select([self._control], [], [], TICK_SECONDS)[0]:
            return False
        ending = False
        for line in self._lines():
            if "until" in line:
                self._until = max(self._until, float(line["until"]))
            if "signal" in line:
                self._signal(int(line["signal"]))
            ending = ending or bool(line.get("end"))
        return ending or self._control.fileno() < 0

    def _lines(self, *, block: bool = False) -> list[dict[str, Any]]:
        """The whole lines that came; at the end of the socket it is closed."""
        try:
            read = self._control.recv(1 << 16)
        except OSError:
            read = b""
        if not read:
            self._control.close()
            if block:
                sys.exit(0)
            return []
        *whole, self._unread = (self._unread + read).split(b"\n")
        return [json.loads(line) for line in whole]

    def _tell(self, **line: object) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(line).encode() + b"\n")


def main() -> None:
    """The program: the argument is the number of the socket."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # lease run decides, and tells
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    adopt_orphans()
    Guardian(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
