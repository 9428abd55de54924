"""The program between a builder and a build: runs one build, and leaves nothing of it after any event.

    builder ──orders──► supervisor ──► guard ──► the build
            ◄──result──             (process 1 of the build's own namespaces, where there are any)

The supervisor ends everything when the build ends, is out of time or is told to stop. It also does so when the builder
is gone, which it sees as the end of its standard input. If it is killed itself, the guard dies with it, and with the
guard all processes in its namespace. Without namespaces the guard sees the same end of its orders and kills the processes
that it finds. Both adopt orphaned processes of daemons.

Starts without any packages (``isolation`` says how), so this imports the standard library and ``leftovers`` only.
Standard input: one line of JSON, the Spec, then maybe ``stop SECONDS``. Standard output: one line, when all is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from nodepool_ocb_builder.sandbox import leftovers

TIME_OUT_GRACE_SECONDS: Final = 5.0  # from the polite signal to the last one
EXIT_CANNOT_START: Final = 127
_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_MS_PROC: Final = 0x2 | 0x4 | 0x8  # nosuid, nodev, noexec
_MS_REC_SLAVE: Final = 0x4000 | 0x80000  # mounts of the build stay in it; unmounts of the host arrive
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


class Spec(NamedTuple):
    """The build to run; ``namespaces``: ``root``, ``user`` (an ordinary user's), or empty for none."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    work: str
    log: str
    timeout_seconds: float
    namespaces: str


def main() -> int:
    """``probe KIND`` only tries whether there are such namespaces: exit status 0 says yes."""
    if sys.argv[-2:-1] == ["probe"]:
        return _probe(sys.argv[-1])
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # only the builder gives orders, and its end is an order
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _, heard = _hear(0)
    while heard and b"\n" not in heard:
        more = _hear(0)[1]
        heard = heard + more if more else b""
    if not heard:
        return 1  # the builder is gone before it gave an order; the next one sweeps
    line, _, rest = heard.partition(b"\n")
    result = Supervisor(Spec(**json.loads(line))).run(rest)
    with suppress(OSError):
        os.write(1, (json.dumps(result) + "\n").encode())
    return 0


class Supervisor:
    """One build from its start until nothing of it is left."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.work = Path(spec.work)
        self.reason: str | None = None  # why it was ended before it ended itself
        self.status: dict[str, Any] = {}  # the guard's report of the build's end
        self.began = time.monotonic()
        self.deadline = self.began + spec.timeout_seconds

    def run(self, heard: bytes) -> dict[str, Any]:
        """Start the build, wait, clear up; the result: exit_code, reason and faults."""
        log = os.open(self.spec.log, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            orders, status = self._start(log)
            self._follow(orders, status, heard)
        except OSError as error:
            self.status = {"error": f"could not be isolated: {error}"}
        loops = leftovers.loops(self.work)
        left = leftovers.end_descendants()
        faults = leftovers.clear(self.work, loops)
        if left:
            faults.insert(0, f"processes {left} cannot be ended by this user; end them as root")
        exit_code, reason = self._ending()
        for line in (*faults, f"ended: {reason or 'exit status 0'}, after {time.monotonic() - self.began:.1f} s"):
            say(log, line)
        return {"exit_code": exit_code, "reason": reason, "faults": faults}

    def _start(self, log: int) -> tuple[int, int]:
        """Fork the guard; gives the ends by which it takes orders and tells how the build ended."""
        orders_read, orders = os.pipe()
        status, status_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(orders)
            os.close(status)
            _descriptors(log)
            _become_guard(self.spec, orders_read, status_write)
        os.close(orders_read)
        os.close(status_write)
        if self.spec.namespaces and os.waitpid(pid, 0)[1]:  # it has left the guard to us
            raise OSError("the namespaces that the builder found cannot be made any more")
        with suppress(BrokenPipeError):
            os.write(orders, b"g")
        return orders, status

    def _follow(self, orders: int, status: int, heard: bytes) -> None:
        """Wait for the build's end, or decide it."""
        self._obey(orders, heard)
        watched = [0, status]
        while True:
            ready, _, _ = select.select(watched, [], [], max(0.0, self.deadline - time.monotonic()))
            if status in ready:
                self.status = json.loads(_hear(status)[1].partition(b"\n")[0] or b"{}")
                return
            if 0 in ready:
                there, said = _hear(0)
                if not there:
                    self.reason = "the builder is gone"
                    return
                self._obey(orders, said)
            elif not ready:
                if self.reason is not None:
                    return  # it did not end in its grace
                self._terminate(orders, f"timed out after {self.spec.timeout_seconds:g} s", TIME_OUT_GRACE_SECONDS)

    def _obey(self, orders: int, said: bytes) -> None:
        word, _, seconds = said.decode().strip().partition(" ")
        if word == "stop":
            self._terminate(orders, self.reason or "was stopped", float(seconds.split()[0]))

    def _terminate(self, orders: int, reason: str, grace_seconds: float) -> None:
        self.reason = reason
        self.deadline = time.monotonic() + grace_seconds
        with suppress(BrokenPipeError):
            os.write(orders, b"t")

    def _ending(self) -> tuple[int | None, str | None]:
        if error := self.status.get("error"):
            return None, self.reason or error
        waited = self.status.get("waited")
        if waited is None:
            return None, self.reason or "its guard was killed"
        if os.WIFSIGNALED(waited):
            return None, self.reason or f"ended by {signal.Signals(os.WTERMSIG(waited)).name}"
        exit_code = os.WEXITSTATUS(waited)
        return exit_code, self.reason or (f"exit status {exit_code}" if exit_code else None)


def say(log: int, line: str) -> None:
    """Put a line of ours into a log, after any output; a full disk must not prevent the cleanup."""
    with suppress(OSError):
        size = os.fstat(log).st_size
        start = "\n" if size and os.pread(log, 1, size - 1) != b"\n" else ""
        os.write(log, f"{start}-- {line}\n".encode())


# -- the guard --


def _become_guard(spec: Spec, orders: int, status: int) -> NoReturn:
    """Enter the namespaces, start the build, reap, and report its result. Remaining processes are killed when this exits."""
    try:
        if spec.namespaces:
            _unshare(spec.namespaces)
            if os.fork():
                os._exit(0)  # only a child is in the new process namespace
        os.setsid()
        if not _hear(orders)[1]:
            os._exit(1)  # the supervisor is gone
        if spec.namespaces:
            _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _own_mounts()
        else:
            _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _guard(spec, orders, status)
    except BaseException as error:
        _tell(status, "error", f"could not be isolated: {error}")
        os._exit(1)
    os._exit(0)


def _guard(spec: Spec, orders: int, status: int) -> None:
    wake, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken
    build = _spawn(spec, status)
    while (waited := _reap(build)) is None:
        ready, _, _ = select.select([orders, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        if orders in ready:
            if not _hear(orders)[1]:
                break  # the supervisor is gone
            _terminate_all(spec.namespaces)
    if waited is not None:
        _tell(status, "waited", waited)
    leftovers.end_descendants()


def _tell(status: int, word: str, value: str | int) -> None:
    """One line to the supervisor, which believes the first."""
    with suppress(OSError):
        os.write(status, (json.dumps({word: value}) + "\n").encode())


def _reap(build: int) -> int | None:
    """Take every dead child; gives how the build ended, once it did."""
    with suppress(ChildProcessError):
        while True:
            pid, waited = os.waitpid(-1, os.WNOHANG)
            if pid == build:
                return waited
            if pid == 0:
                break
    return None


def _terminate_all(namespaces: str) -> None:
    if namespaces:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGTERM)  # all of the namespace but us
    else:
        for pid in leftovers.descendants():
            leftovers.send(pid, signal.SIGTERM)


def _spawn(spec: Spec, status: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (*_SIGNALS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        os.chdir(spec.cwd)
        os.execvpe(spec.argv[0], spec.argv, spec.env)
    except OSError as error:
        _tell(status, "error", f"could not be started: {spec.argv[0]}: {error.strerror}")
    except BaseException as error:
        _tell(status, "error", f"could not be started: {spec.argv[0]}: {error!r}")
    os._exit(EXIT_CANNOT_START)


def _descriptors(log: int) -> None:
    """Standard input empty, output and errors into the log; all other descriptors close when the build starts."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    for fd, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, fd, inheritable=True)
    os.close(nothing)


# -- namespaces --


def _probe(kind: str) -> int:
    """Try for real: containers forbid this in many ways."""
    try:
        _unshare(kind)
        pid = os.fork()
        if pid == 0:
            try:
                _own_mounts()
            except OSError:
                os._exit(1)
            os._exit(0)
        return 1 if os.waitpid(pid, 0)[1] else 0
    except OSError:
        return 1


def _unshare(kind: str) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if kind == "root":
        _call("unshare", _CLONE_NEWNS | _CLONE_NEWPID)
        return
    _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID)
    for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", file).write_text(text)


def _own_mounts() -> None:
    _call("mount", b"none", b"/", None, _MS_REC_SLAVE, None)
    _call("mount", b"proc", b"/proc", b"proc", _MS_PROC, None)


def _call(name: str, *arguments: Any) -> None:
    """A function of the C library that gives 0 or sets errno; raises OSError."""
    longs = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if getattr(_libc, name)(*longs) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def _hear(fd: int) -> tuple[bool, bytes]:
    """The bytes that can be read now, up to the size of a pipe; False and nothing at its end."""
    data = os.read(fd, 65536)
    return bool(data), data
