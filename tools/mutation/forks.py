"""Work in a forked process, which can end as it likes: its messages come back line by line.

When the fork has ended, every process that it left behind is ended, too: orphans become children of the caller.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select
from typing import Final, NoReturn, TypeAlias

Send: TypeAlias = Callable[[bytes], None]
Work: TypeAlias = Callable[[Send], None]

MEMORY_BYTES: Final = 8 << 30
CLOCK: Final = 30  # times its processor time: what a fork may take where nothing else is said
SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
SAID: Final = os.dup(2)  # where people read, whatever a fork's own is


class Ended(Exception):
    """It used up its time, or was ended; its earlier messages were delivered before."""


def lines(work: Work, cpu_seconds: int | None = None, clock_seconds: float | None = None) -> Iterator[bytes]:
    """The messages of the work, while it runs. It prints nothing but the error that ends it.

    Raises Ended where it does not come to its own end.
    Its limit is processor time, which a busy machine does not shorten, and time on the clock, by default CLOCK times that.
    """
    ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if clock_seconds is None and cpu_seconds is not None:
        clock_seconds = CLOCK * cpu_seconds
    others = _children()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _worked(work, writing, cpu_seconds)
    os.close(writing)
    try:
        yield from _received(reading, None if clock_seconds is None else time.monotonic() + clock_seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        while left := _children() - others:
            _ended(left)
    if status != 0:
        raise Ended


def _children() -> set[int]:
    return {int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def _ended(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _received(pipe: int, deadline: float | None) -> Iterator[bytes]:
    rest = b""
    while select([pipe], [], [], None if deadline is None else max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(pipe, 1 << 16)
        if not data:
            os.set_blocking(pipe, False)
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


def _worked(work: Work, pipe: int, cpu_seconds: int | None) -> NoReturn:
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nowhere, each)
        if cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        work(lambda line: _write(pipe, line + b"\n"))
        status = 0
    except BaseException:
        os.write(SAID, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]
