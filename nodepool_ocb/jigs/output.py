"""The output of a script: written to a file if possible, with its end in the record of the run.

The file is a convenience. A fault of the file ends no conversation and fails no run. Each kind of fault is logged once
an hour, for all runs together.
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
from nodepool_ocb.telemetry.redaction import Mask, MaskingStream
from nodepool_ocb.telemetry.terminal_escape import visible

log = logging.getLogger(__name__)

LINE_CHARACTERS: Final = 200  # of the last line of the output, in a reason
SAID_AGAIN_SECONDS: Final = 3600.0
CUT: Final = "\n-- cut here: a run's log holds at most {} bytes; the end of the output is in the run's record --\n"
LEFT_OUT: Final = b"\n-- output is left out here --\n"

_said: dict[int | None, float] = {}  # errno → when it was said


class Output:
    """Bytes of one run in their order, without its secrets. Bytes that are sent again are taken once, from any
    connection.

    The file is made with the first byte: a run that prints nothing has none. An annealer that asks about the run again
    writes the same bytes over those in its file. So a reader of the file never sees it shrink, unless the run was started
    anew.
    """

    def __init__(self, file: Path | None, most_bytes: int = LOG_BYTES, mask: Mask = Mask()) -> None:  # noqa: B008
        self.position = 0  # how many bytes of the run are known
        self._mask = mask
        self._stream = MaskingStream(mask)
        self._gap = 0  # bytes that may be the end of a secret with a missing beginning
        self._tail = b""
        self._wanted = file  # until it is opened
        self._path: Path | None = None  # once it is
        self._file: BinaryIO | None = None
        self._room = most_bytes
        self._most_bytes = most_bytes

    @property
    def file(self) -> Path | None:
        """The file with the output; None before the first byte, and if none could be written."""
        return self._path

    @property
    def tail(self) -> str:
        """The end, as text."""
        return (self._tail + self._stream.rest())[-TAIL_BYTES:].decode("utf-8", "replace")

    def take(self, start: int, data: bytes) -> None:
        """Bytes from this place on; those that are known already are left out."""
        new = data[max(0, self.position - start) :]
        self.position += len(new)
        cut = min(self._gap, len(new))
        self._gap -= cut
        self._tell(self._stream.take(new[cut:]))

    def _tell(self, new: bytes) -> None:
        self._tail = (self._tail + new[-TAIL_BYTES:])[-TAIL_BYTES:]
        if new:
            try:
                self._open()
                if self._file is not None:
                    self._keep(self._file, new)
            except OSError as error:
                self._give_up(error)

    def skip(self, position: int) -> None:
        """Leave out the bytes up to this position: they cannot be had."""
        if position > self.position:
            self._tell(self._stream.end() + LEFT_OUT)
            self.position = position
            self._gap = max(0, self._mask.longest - 1)

    def restart(self) -> None:
        """Begin again: the run was started anew, and the bytes so far belong to another run."""
        self._stream = MaskingStream(self._mask)
        self.position, self._gap, self._tail, self._room = 0, 0, b"", self._most_bytes
        try:
            if self._wanted is not None and self._wanted.exists():  # of an earlier order
                self._open()
            if self._file is not None:
                self._file.truncate(0)
                self._file.seek(0)
        except OSError as error:
            self._give_up(error)

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(self._stream.end())
        self._close()

    def _open(self) -> None:
        """Open the file, once."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._file, self._path = _opened(wanted), wanted

    def _keep(self, file: BinaryIO, new: bytes) -> None:
        _write(file, new[: self._room])
        if len(new) > self._room:
            file.write(CUT.format(self._most_bytes).encode())
            self._close()
        self._room -= len(new)

    def _give_up(self, error: OSError) -> None:
        """Go on without the file, or with the bytes that it has."""
        metrics.RUN_LOG_FAILURES.inc()
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


def last_line(tail: str) -> str:
    """The last line of an output that is not blank, shortened, with control characters shown; empty if there is none.

    >>> last_line("first\\nmv: cannot move: busy\\n\\n")
    'mv: cannot move: busy'
    """
    line = next((line for line in reversed(tail.splitlines()) if line.strip()), "").strip()
    return visible(line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]}...")


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
            return open(file, "r+b", buffering=0, opener=_private)
    return open(file, "r+b", buffering=0, opener=_private)


def _write(file: BinaryIO, data: bytes) -> None:
    """Write all of it; a disk that is nearly full takes a part first."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)
