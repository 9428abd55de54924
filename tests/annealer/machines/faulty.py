"""An annealer on a host with a fault: python faulty.py ...; with FAULT_DAEMON=builder a builder.

FAULT_FILE names the fault, and is empty while there is none: an errno or an EAI code of the way to a machine, or a thread that
does not start. FAULT_ETC is a folder whose ``hosts`` and ``resolv.conf`` stand in for those of /etc. FAULT_HOST is the name of
the host.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.jigs.ssh import sockets
from nodepool_ocb.jigs.ssh.sockets import Socket
from nodepool_ocb_annealer.main import main as annealer
from nodepool_ocb_builder.main import main as builder

CLONE_NEWNS: Final = 0x00020000


def fault() -> str:
    """Its name; empty where there is none."""
    return Path(os.environ["FAULT_FILE"]).read_text()


def resolve(*arguments: Any, **named: Any) -> Any:
    """As getaddrinfo; ZooKeeper's address is always known."""
    number = getattr(socket, fault(), None) if fault().startswith("EAI_") else None
    if number is not None and arguments[0] != "127.0.0.1":
        raise socket.gaierror(number, "injected")
    return _getaddrinfo(*arguments, **named)


def connect(sock: Socket, address: Any) -> None:
    """As a socket's."""
    name = fault().partition(" ")[0]
    if name == "timeout":
        raise TimeoutError("timed out")
    if name.startswith("E") and not name.startswith("EAI_"):
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
    _connect(sock, address)


def start(thread: threading.Thread) -> None:
    """As a thread's; "no timer" is the thread that paramiko starts within the one of a connection."""
    if fault() == "no thread" or (fault() == "no timer" and isinstance(thread, threading.Timer)):
        raise RuntimeError("can't start new thread")
    _start(thread)


def has_route(*arguments: Any) -> bool:
    """As the product's; there is none in the fault ENETUNREACH, but in that of a router."""
    return _has_route(*arguments) and fault() != "ENETUNREACH"


def stand_in(folder: Path) -> None:
    """From here on this process has files of its own in /etc."""
    assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for name in ("hosts", "resolv.conf"):
        subprocess.run(["mount", "--bind", folder / name, os.path.realpath(f"/etc/{name}")], check=True)


_getaddrinfo, _connect, _has_route = socket.getaddrinfo, Socket.connect, sockets.has_route
_start = threading.Thread.start

if __name__ == "__main__":
    if "FAULT_ETC" in os.environ:
        stand_in(Path(os.environ["FAULT_ETC"]))
    if "FAULT_HOST" in os.environ:
        socket.gethostname = lambda: os.environ["FAULT_HOST"]
    socket.getaddrinfo = resolve
    Socket.connect = connect  # type: ignore[method-assign, assignment]
    sockets.has_route = has_route
    threading.Thread.start = start  # type: ignore[method-assign]
    (builder if os.environ.get("FAULT_DAEMON") == "builder" else annealer)()
