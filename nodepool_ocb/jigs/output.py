"""What a script prints: into a file as far as that can be had, and its end into the record of the run.

The file is a convenience. What cannot be written to it ends no conversation and fails no run; each kind of fault is said
once an hour, for all runs together.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

from nodepool_ocb.jigs.jig import LOG_BYTES, TAIL_BYTES
from nodepool_ocb.telemetry import metrics

log = logging.getLogger(__name__)

SAID_AGAIN_SECONDS: Final = 3600.0
CUT: Final = "\n-- cut here: a run's log holds at most {} bytes; the end of the output is in the run's record --\n"
LEFT_OUT: Final = b"\n-- output is left out here --\n"

_said: dict[int | None, float] = {}  # errno → when it was said


class Output:
    """Bytes of one run in their order; each is taken once, however often and from wherever it comes."""

    def __init__(self, file: Path | None, most_bytes: int = LOG_BYTES) -> None:
        self.position = 0  # how many bytes of the run are known
        self._tail = b""
        self._path = file
        self._file: BinaryIO | None = None
        self._begun = False
        self._room = most_bytes
        self._most_bytes = most_bytes
        if file is not None:
            try:
                self._file = _opened(file)
            except OSError as error:
                self._give_up(error)

    @property
    def file(self) -> Path | None:
        """Where it is kept; None where nothing could be."""
        return self._path

    @property
    def tail(self) -> str:
        """The end, as text."""
        return self._tail.decode("utf-8", "replace")

    def take(self, start: int, data: bytes) -> None:
        """Bytes from this place on; those that are known already are left out."""
        new = data[max(0, self.position - start) :]
        self.position += len(new)
        self._tail = (self._tail + new[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._file is not None and new:
            try:
                self._keep(self._file, new)
            except OSError as error:
                self._give_up(error)

    def skip(self, position: int) -> None:
        """What lies between is not to be had: what comes next begins here."""
        if position > self.position:
            self.take(self.position, LEFT_OUT)
            self.position = position

    def restart(self) -> None:
        """The run was started anew: what comes now is another's first byte."""
        self.position = 0

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _keep(self, file: BinaryIO, new: bytes) -> None:
        if not self._begun:
            file.truncate(0)  # of the same run, asked about once more: all of it comes again
            self._begun = True
        _write(file, new[: self._room])
        if len(new) > self._room:
            file.write(CUT.format(self._most_bytes).encode())
            self._close()
        self._room -= len(new)

    def _give_up(self, error: OSError) -> None:
        """This run goes without its file, or with what is there."""
        metrics.RUN_LOG_FAILURES.inc()
        if self._file is None:
            self._path = None
        self._close()
        now = time.monotonic()
        if now - _said.get(error.errno, float("-inf")) >= SAID_AGAIN_SECONDS:
            _said[error.errno] = now
            log.warning("the output of runs cannot be kept, only its end: %s", error)

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def kept(file: Path | None) -> tuple[str, Path | None]:
    """The end of a run's output, and its file, where it is kept on this host; else nothing, and None."""
    try:
        with open(file or os.devnull, "rb") as whole:
            whole.seek(max(0, whole.seek(0, os.SEEK_END) - TAIL_BYTES))
            return whole.read(TAIL_BYTES).decode("utf-8", "replace"), file
    except OSError:
        return "", None


def _opened(file: Path) -> BinaryIO:
    """The folder may be removed as empty between its making and the opening."""
    for _ in range(2):
        file.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return open(file, "ab", buffering=0, opener=_private)
    return open(file, "ab", buffering=0, opener=_private)


def _write(file: BinaryIO, data: bytes) -> None:
    """All of it; a disk that is nearly full takes a part first."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
