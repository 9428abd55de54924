"""Runs a build so that nothing of it is left: no process, no mount, no loop device, no work folder.

This holds for each end: by itself, by ``stop``, by its time-out, or by a death of this builder. After a death
``supervisor`` removes all within five seconds, except a large folder, which goes as fast as the disk deletes. Where this
machine allows it (root, or user namespaces) the build has its own process and mount namespaces, and nothing can leave
them. As an ordinary user without them, daemons of the build are found by descent. Only if supervisor and guard are
killed in one moment does one live on, until ``sweep``, or for ever if it has left its environment and folder.

The build gets an empty standard input, a session of its own, umask 022, and no other open files. Its output and errors go
into the log, which ends with a line about the result. Its environment has the command's own variables with PATH, HOME
(the work folder), LANG=C.UTF-8, TMPDIR (below the work folder) and NODEPOOL_OCB_WORK (the work folder).
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from nodepool_ocb_builder.backends.backend import Command, search_path
from nodepool_ocb_builder.sandbox import leftovers, supervisor

__all__ = ["Ended", "Process", "namespaces", "start", "sweep"]

WORK_SUFFIX: Final = ".build"
SCRATCH_BYTES: Final = 4  # of chance in the name of a temporary folder elsewhere
# Without site-packages it starts in a few hundredths of a second, and nothing installed can break it.
_PROGRAM: Final = (
    *(sys.executable, "-I", "-S", "-c"),
    "import sys; sys.path.append(sys.argv[1]); from nodepool_ocb_builder.sandbox.supervisor import main; sys.exit(main())",
    str(Path(supervisor.__file__).parents[2]),
)


class Ended(msgspec.Struct, frozen=True):
    """How a build ended; all of it is gone. ``reason`` is None when it succeeded.

    ``timed out after 60 s``, ``exit status 3``, ``ended by SIGKILL``, ``was stopped``, ``could not be started: ...``
    """

    exit_code: int | None
    reason: str | None


class Process:
    """A build under way; from any thread."""

    def __init__(self, program: subprocess.Popen[bytes], work: Path, log: Path) -> None:
        """``program`` is a supervisor that has its order; ``start`` makes it."""
        self.pid: Final = program.pid  # the supervisor's
        self._program = program
        self._work = work
        self._log = log
        self._lock = threading.Lock()
        self._heard = b""
        self._ended: Ended | None = None

    def wait(self, seconds: float | None = None) -> Ended | None:
        """Until it has ended and all of it is gone, or for so long; None when it still runs then."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._lock.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            if deadline is not None and time.monotonic() >= deadline:
                return None
        try:
            while self._ended is None and self._readable(deadline):
                self._hear()
            return self._ended
        finally:
            self._lock.release()

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Ask for its end and come back at once: SIGTERM to all of it, SIGKILL after the grace. ``wait`` tells."""
        assert self._program.stdin is not None
        with suppress(OSError, ValueError):  # it has ended already
            self._program.stdin.write(f"stop {grace_seconds}\n".encode())
            self._program.stdin.flush()

    def _readable(self, deadline: float | None) -> bool:
        poll = select.poll()
        poll.register(self._output)
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        return bool(poll.poll(left))

    @property
    def _output(self) -> int:
        assert self._program.stdout is not None
        return self._program.stdout.fileno()

    def _hear(self) -> None:
        data = os.read(self._output, 65536)
        self._heard += data
        if data and not self._heard.endswith(b"\n"):
            return
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.wait()
        if self._heard.endswith(b"\n"):
            result = json.loads(self._heard)
            self._ended = Ended(result["exit_code"], result["reason"])
        else:
            self._ended = self._after_the_supervisor()
        self._program.stdout.close()
        with suppress(OSError):
            self._program.stdin.close()

    def _after_the_supervisor(self) -> Ended:
        """It was killed, or failed: do its work in its place."""
        ended = Ended(None, f"its supervisor ended with status {self._program.returncode}")
        lines = [*_end(self._work), f"ended: {ended.reason}"]
        log = os.open(self._log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        for line in lines:
            supervisor.say(log, line)
        os.close(log)
        return ended


def start(command: Command, *, log: Path, work: Path, timeout_seconds: float) -> Process:
    """Begin a build; ``work`` exists, is absolute and empty, and goes when the build ends. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    _temporary_folder(command, work)
    spec = supervisor.Spec(
        argv=list(command.argv),
        env=_environment(command, work),
        cwd=str(command.cwd),
        work=str(work),
        log=str(log),
        timeout_seconds=timeout_seconds,
        namespaces=namespaces(command.calls_setuid),
    )
    with log.open("ab") as errors:
        program = subprocess.Popen(
            _PROGRAM,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={"PATH": search_path(), "LANG": "C.UTF-8", leftovers.MARK: str(work), leftovers.REAPER: str(work)},
            start_new_session=True,  # signals from a terminal to us are not for it
        )
    assert program.stdin is not None
    with suppress(OSError):  # it is gone already: wait says so
        program.stdin.write(json.dumps(spec._asdict()).encode() + b"\n")
        program.stdin.flush()
    return Process(program, work, log)


def sweep(work_root: Path) -> list[str]:
    """End and remove every build that lies in a folder: call it before this builder starts its first one.

    Returns the things that could not be removed, as sentences.
    """
    faults = []
    for work in sorted(work_root.glob(f"*{WORK_SUFFIX}")):
        if work.is_dir() and not work.is_symlink():
            faults += _end(work.absolute())
    return faults


@functools.cache
def namespaces(calls_setuid: bool = False) -> str:
    """The namespaces that builds can have here, found by trying: ``root``, ``user`` or none (empty).

    In an ordinary user's namespace no set-uid program has its rights, so builds that call one get none.
    """
    kinds = ["root"] if os.geteuid() == 0 else [] if calls_setuid else ["user"]
    for kind in kinds:
        if subprocess.run((*_PROGRAM, "probe", kind), stdin=subprocess.DEVNULL, check=False).returncode == 0:
            return kind
    return ""


def _end(work: Path) -> list[str]:
    """In place of a supervisor that is gone."""
    loops = leftovers.loops(work)
    left = leftovers.end(work)
    faults = [f"processes {left} of {work} cannot be ended by this user; end them as root"] if left else []
    return faults + leftovers.clear(work, loops)


def _temporary_folder(command: Command, work: Path) -> None:
    """``work/tmp``, or a link of that name to a folder of this build's own where the command wants it elsewhere.

    Builders of two clusters, or one that was reinstalled, have builds of one name: chance tells their folders apart.
    """
    elsewhere = command.env.get("TMPDIR")
    if not elsewhere:
        (work / "tmp").mkdir()
        return
    scratch = Path(elsewhere, f"{work.name}.{secrets.token_hex(SCRATCH_BYTES)}").absolute()
    (work / "tmp").symlink_to(scratch)
    scratch.mkdir(parents=True)


def _environment(command: Command, work: Path) -> dict[str, str]:
    scratch = leftovers.scratch_of(work) or work / "tmp"
    defaults: Mapping[str, Any] = {"PATH": search_path(), "HOME": str(work), "LANG": "C.UTF-8"}
    return {**defaults, **command.env, "TMPDIR": str(scratch), leftovers.MARK: str(work)}
