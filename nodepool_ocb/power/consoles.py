"""Serial consoles of machines, for reading: a socket of QEMU, or ipmitool with Serial over LAN (SOL).

A console has a file descriptor that a selector watches. Nothing is written to it. A BMC has one SOL session: another reader
keeps it, unless the caller takes it from an annealer that died.
"""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Final

from nodepool_ocb.engine import addressing
from nodepool_ocb.power.driver import CONNECT_SECONDS, FaultKind, PowerFault

PIECE_BYTES: Final = 1 << 14
BEGIN_BYTES: Final = 2000  # of a program's output, in which it may say that the login is wrong
LEAVE_SECONDS: Final = 2.0  # that a program may take to give its session back


class SocketConsole:
    """A socket that QEMU listens at: ``unix:PATH`` or ``HOST:PORT``. Raises PowerFault."""

    refused = False

    def __init__(self, address: str) -> None:
        try:
            if address.startswith("unix:"):
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.settimeout(CONNECT_SECONDS)
                self._socket.connect(address.removeprefix("unix:"))
            else:
                self._socket = socket.create_connection(addressing.parse(address), CONNECT_SECONDS)
        except OSError as error:
            with contextlib.suppress(AttributeError):
                self._socket.close()
            reason = error.strerror or str(error)
            raise PowerFault(FaultKind.UNREACHABLE, f"{address} does not answer: {reason}") from error
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> bytes:
        try:
            return self._socket.recv(PIECE_BYTES)
        except OSError:
            return b""

    def leave(self) -> None:
        """It has no session."""

    def close(self) -> None:
        self._socket.close()


class ProgramConsole:
    """A program on a terminal of its own; it ends with the terminal, and so with this process. Raises PowerFault.

    ``leave``: the letters by which it gives its session back; ``login``: texts of a refused login
    at its begin.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, leave: bytes, login: Sequence[str]
    ) -> None:
        self._leave, self._login, self._begun = leave, login, b""
        self._until: float | None = None  # the end of its time to give the session back (monotonic)
        try:
            self._terminal, inner = pty.openpty()
        except OSError as error:
            raise PowerFault(FaultKind.OWN, f"this host has no terminal for {command[0]}: {error}") from error
        try:
            _quiet(inner)
            self._program = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=inner,
                stdout=inner,
                stderr=inner,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._terminal)
            reason = f"this host cannot start {command[0]}: {error.strerror}; install the package of {command[0]} here"
            raise PowerFault(FaultKind.OWN, reason) from error
        finally:
            os.close(inner)
        os.set_blocking(self._terminal, False)

    def fileno(self) -> int:
        return self._terminal

    def read(self) -> bytes:
        try:
            data = os.read(self._terminal, PIECE_BYTES)
        except OSError:  # the program has ended
            return b""
        self._begun += data[: BEGIN_BYTES - len(self._begun)]
        return data

    @property
    def refused(self) -> bool:
        said = self._begun.decode(errors="replace")
        return any(each in said for each in self._login)

    def leave(self) -> None:
        if self._until is None:
            self._until = time.monotonic() + LEAVE_SECONDS
            with contextlib.suppress(OSError):
                os.write(self._terminal, self._leave)

    def close(self) -> None:
        self.leave()
        assert self._until is not None, "it was left"
        try:
            self._program.wait(max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        os.close(self._terminal)


def _quiet(terminal: int) -> None:
    """The terminal repeats no letters."""
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSANOW, settings)


def faults(address: str) -> list[str]:
    """One sentence if this is no address of a console's socket."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:/") or (not address.startswith("unix:") and host and port.isdigit()):
        return []
    return [f"options: console is {address!r}, which is no socket; write unix:/PATH or HOST:PORT"]
