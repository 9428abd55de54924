"""Starts Python processes of this product as forks of one process that has imported the daemons already.

To import a daemon costs half a second of CPU, and the tests start some thousand. A launcher imports networkx besides when it
begins, and each daemon jsonschema: the server imports these too. ``Forkserver`` runs this module as a
process of its own, with one thread, which forks a child for each request. A child is a process like any other: it has a
session, an environment, a log and a process id of its own, and may be killed and frozen. It differs in its parent and in
its command line. It shares no state with other children: the server imports modules and does nothing else.

Requests and answers are JSON, one line each, over a socket pair.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.process import leave

PRODUCT: Final = "nodepool-ocb"  # its entry points are imported: the daemons, the command line, jigs and drivers
#: Daemons import these when they first need them, some at their start.
LATE: Final = (
    "cronsim",
    "docker",
    "encodings.idna",
    "jsonschema",
    "networkx",
    "nodepool_ocb_schemas",
    "openstack.connection",
)
#: The resource limits that a child inherits from the process that asked for it.
LIMITS: Final = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
#: Variables that Python or the dynamic linker reads when a program starts: a fork comes too late for these.
AT_START: Final = ("PYTHON", "LD_", "FAKETIME")


class Forked:
    """A child of the server, with the part of the interface of ``subprocess.Popen`` that tests use."""

    def __init__(self, server: Forkserver, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired if the child still runs after ``timeout`` seconds."""
        if self.poll() is None:
            ended = os.pidfd_open(self.pid)  # not a child of ours, and not yet reaped: the number is still its own
            try:
                if not select.select([ended], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            finally:
                os.close(ended)
        deadline = time.monotonic() + 10.0
        while (status := self.poll()) is None:  # its last thread may still be on its way out
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {self.pid} ended and was not reaped")
            time.sleep(0.001)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL if it still runs."""
        self.send_signal(signal.SIGKILL)


class Forkserver:
    """The process that forks; it ends with the process that made it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that made it, which then ends each child in order
            )
        self._socket, self._stream = ours, ours.makefile("rw")
        self._lock = threading.Lock()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        """Start ``python ARGUMENTS`` (``-m MODULE ...`` or ``FILE ...``) in a new session; its output goes to ``log``."""
        limits = {number: resource.getrlimit(number) for number in LIMITS}
        umask = os.umask(0o077)
        os.umask(umask)
        process = {"cwd": os.getcwd(), "umask": umask, "limits": list(limits.items())}
        return Forked(
            self, self.ask(start=list(arguments), environment=dict(environment), log=str(log), process=process)
        )

    def ask(self, **request: Any) -> Any:
        """The answer to one request. Raises RuntimeError if the server has ended."""
        with self._lock:
            self._stream.write(json.dumps(request) + "\n")
            self._stream.flush()
            line = self._stream.readline()
        if not line:
            raise RuntimeError("the forkserver ended")
        return json.loads(line)

    def close(self) -> None:
        """End the server; its children continue."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()
        self._process.wait()


@functools.cache
def shared() -> Forkserver:
    """The forkserver of this process, started by the first call."""
    server = Forkserver()
    atexit.register(server.close)
    return server


def can_fork(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a fork does for this command line with these variables besides those of this process."""
    early = any(name.startswith(AT_START) for name in environment)
    return not early and (arguments[0] == "-m" or arguments[0].endswith(".py"))


# -- in the server --


def serve(conversation: socket.socket) -> Mapping[str, Any] | None:
    """Answer requests until the other end closes: then None. In each child it returns the request that the child is for."""
    for point in distribution(PRODUCT).entry_points:
        point.load()
    for name in LATE:
        with contextlib.suppress(ImportError):  # two are optional
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or each child's first collection would copy every page
    with conversation, conversation.makefile("rw") as stream:
        while line := stream.readline():
            request = json.loads(line)
            if "poll" in request:
                answer = _reaped(request["poll"])
            elif (answer := os.fork()) == 0:
                break
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
        else:
            return None
    # in a child: the server's end of the conversation is closed here, and stays open in the server
    return dict(request)


def _reaped(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def become(arguments: Sequence[str], environment: Mapping[str, str], log: str, process: Mapping[str, Any]) -> None:
    """Be ``python ARGUMENTS`` from here on, in a new session, with this environment and output; ends as that does.

    ``process``: the working directory, the umask and the resource limits of the process that asked.
    """
    os.setsid()
    os.chdir(process["cwd"])
    os.umask(process["umask"])
    for number, (soft, hard) in process["limits"]:
        resource.setrlimit(number, (soft, hard))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    gc.unfreeze = _leave_frozen
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        sys.modules.pop(arguments[1], None)  # it runs anew, as __main__
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        sys.path[0] = str(Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")


def _leave_frozen() -> None:
    """In place of gc.unfreeze: with the server's objects thawed, an annealer's collection copies every page of the server."""


if __name__ == "__main__":
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        try:
            become(asked["start"], asked["environment"], asked["log"], asked["process"])
        except SystemExit as end:
            if not isinstance(end.code, int | None):
                raise  # a text, which Python prints
            leave(end.code or 0)  # not to free the objects of the server one by one
        leave(0)
