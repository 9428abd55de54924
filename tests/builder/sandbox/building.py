"""A builder in a process of its own, which tests start, order about and kill; and what its builds leave behind.

    {"argv": [...], "env": {}, "setuid": false, "work": ..., "log": ..., "timeout_seconds": 60}

is its standard input. It says ``started PID`` (of the supervisor) and, in the end, the result of ``wait``. A line
``stop SECONDS`` stops the build.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

import nodepool_ocb
import nodepool_ocb_builder
from nodepool_ocb_builder.backends import Command
from nodepool_ocb_builder.sandbox import isolation, leftovers

#: Who builds, and whether the build calls set-uid programs: with that, an ordinary user's has no namespaces.
FLAVOURS = {"root": ("root", False), "user": ("nobody", False), "bare": ("nobody", True)}

PACKAGES = {Path(package.__file__ or "").parents[1] for package in (nodepool_ocb, nodepool_ocb_builder)}


def main() -> None:
    order = json.loads(sys.stdin.readline())
    work = Path(order["work"])
    process = isolation.start(
        Command(argv=tuple(order["argv"]), env=order["env"], cwd=work, calls_setuid=order["setuid"]),
        log=Path(order["log"]),
        work=work,
        timeout_seconds=order["timeout_seconds"],
    )
    print("started", process.pid, isolation.namespaces(order["setuid"]) or "none", flush=True)
    threading.Thread(target=_obey, args=(process,), daemon=True).start()
    ended = process.wait()
    assert ended is not None
    print(json.dumps([ended.exit_code, ended.reason]), flush=True)
    os._exit(0)  # the thread may read for ever


def _obey(process: isolation.Process) -> None:
    for line in sys.stdin:
        process.stop(float(line.split()[1]))


class Context:
    """An image directory, the user who builds in it, and every build that a test began there."""

    def __init__(self, folder: Path, flavour: str) -> None:
        user, self.setuid = FLAVOURS[flavour]
        self.flavour = flavour
        self.user = pwd.getpwnam(user if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
        self.images = folder / "images"
        self.images.mkdir()
        os.chown(self.images, self.user.pw_uid, self.user.pw_gid)
        self.works: list[Path] = []

    def begin(self, script: str, env: dict[str, str] | None = None, timeout_seconds: float = 60.0) -> Builder:
        return self.begin_command(("sh", "-c", script), env, timeout_seconds)

    def begin_command(
        self, argv: tuple[str, ...], env: dict[str, str] | None = None, timeout_seconds: float = 60.0
    ) -> Builder:
        number = len(self.works) + 1
        work = self.images / f"debian-{number:010d}.build"
        work.mkdir()
        os.chown(work, self.user.pw_uid, self.user.pw_gid)
        self.works.append(work)
        order = {
            "argv": argv,
            "env": env or {},
            "setuid": self.setuid,
            "work": str(work),
            "log": str(self.images / "logs" / f"{work.stem}.log"),
            "timeout_seconds": timeout_seconds,
        }
        return Builder(self, work, order)

    def left(self) -> list[object]:
        """Processes, mounts, loop devices and folders of this site's builds."""
        found: list[object] = [path for path in self.images.iterdir() if path.name != "logs"]
        for work in self.works:
            found += [*leftovers.processes(work), *leftovers.mounts(work), *leftovers.loops(work)]
        return found


class Program:
    """This file, running as a fork of a process that has imported it; ``stdin`` and ``stdout`` are pipes."""

    def __init__(self, server: socket.socket) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        socket.send_fds(server, [b"start"], [theirs_in, theirs_out])
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin, self.stdout = os.fdopen(ours_in, "w"), os.fdopen(ours_out)
        self._pid = int(server.recv(20))
        self._alive = os.pidfd_open(self._pid)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._alive, signal.SIGKILL)

    def close(self) -> None:
        """Kill it if it runs, and return when it has ended."""
        self.kill()
        select.select([self._alive], [], [], 30.0)
        os.close(self._alive)
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()


class Programs:
    """A process of a user that has imported this file, and forks a ``Program`` when it is asked."""

    def __init__(self, user: pwd.struct_passwd) -> None:
        self._server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [str(interpreter(user)), __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": ":".join([*sys.path, *map(str, PACKAGES)])},
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
            )

    def start(self) -> Program:
        return Program(self._server)

    def close(self) -> None:
        self._server.close()
        self._process.wait()


@functools.cache
def _programs(uid: int) -> Programs:
    """Those of a user; the process ends with this one."""
    made = Programs(pwd.getpwuid(uid))
    atexit.register(made.close)
    return made


def serve(conversation: socket.socket) -> None:
    """Fork a child for each request; return in the child, with its standard input and output in their places."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    while True:
        request, pipes, _, _ = socket.recv_fds(conversation, 20, 2)
        if not request:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            break
        conversation.send(str(pid).encode())
        for pipe in pipes:
            os.close(pipe)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    conversation.close()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)


class Builder:
    """A builder with one build; a context that kills what a failed test leaves."""

    def __init__(self, context: Context, work: Path, order: dict[str, Any]) -> None:
        self.work, self.log = work, Path(order["log"])
        self.program = _programs(context.user.pw_uid).start()
        self.program.stdin.write(json.dumps(order) + "\n")
        self.program.stdin.flush()
        _, pid, self.namespaces = self.program.stdout.readline().split()
        self.supervisor = int(pid)

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.close()

    def stop(self, grace_seconds: float) -> None:
        self.program.stdin.write(f"stop {grace_seconds}\n")
        self.program.stdin.flush()

    def ended(self) -> tuple[int | None, str | None]:
        """What ``wait`` gave, once it did."""
        exit_code, reason = json.loads(self.program.stdout.readline())
        return exit_code, reason

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()


@functools.cache
def interpreter(user: pwd.struct_passwd) -> str | None:
    """A Python of this version that a user may run, if they may read the code too; ours may lie in somebody's home."""
    for file in (nodepool_ocb.__file__, nodepool_ocb_builder.__file__, msgspec.__file__):
        if subprocess.run(["test", "-r", str(file)], user=user.pw_uid, cwd="/", check=False).returncode != 0:
            return None
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(PermissionError):
            if subprocess.run([python, "-c", version], user=user.pw_uid, cwd="/", check=False).returncode == 0:
                return python
    return None


def running(token: str) -> list[int]:
    """The processes, of anybody, that have this word among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if token.encode() in words:
            found.append(int(folder.name))
    return found


def within(seconds: float, began: float) -> bool:
    return time.monotonic() - began < seconds


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    main()
