"""What a script prints: all of it into a file, its end into the record of the run."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from nodepool_ocb.jigs.jig import TAIL_BYTES


class Output:
    """Bytes of one run in their order; each is taken once, however often and from wherever it comes."""

    def __init__(self, log: Path | None) -> None:
        self.position = 0  # how many bytes of the run are known
        self._tail = b""
        self._file: BinaryIO | None = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(log, "ab", buffering=0, opener=_private)  # noqa: SIM115

    def take(self, start: int, data: bytes) -> None:
        """Bytes from this place on; those that are known already are left out."""
        new = data[max(0, self.position - start) :]
        if self._file is not None:
            self._file.write(new)
        self.position += len(new)
        self._tail = (self._tail + new)[-TAIL_BYTES:]

    def restart(self) -> None:
        """The run was started anew: what comes now is another's first byte."""
        self.position = 0

    @property
    def tail(self) -> str:
        """The end, as text."""
        return self._tail.decode("utf-8", "replace")

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
