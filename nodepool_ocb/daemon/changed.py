"""Changed files of a configuration, noticed by a look at their times and sizes now and then.

A change is reported once, when the files have been the same for the length of a look: so none is read during a write.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, TypeAlias

LOOK_SECONDS: Final = 2.0

File: TypeAlias = str | os.PathLike[str]
_Seen: TypeAlias = tuple[tuple[int, int, int] | None, ...]  # of each file: its time, its size, its number


class ChangedFiles:
    """A file that is not there is as any other state of it."""

    def __init__(self, files: Iterable[File], look_seconds: float = LOOK_SECONDS) -> None:
        self._files, self.look_seconds = tuple(files), look_seconds
        self.noticed = False  # whether the newest look told of a change
        self._taken = self._newest = self._seen()
        self._next = 0.0  # monotonic

    def look(self) -> bool:
        """Whether they are to be read again; a look comes no sooner than ``look_seconds`` after the one before it."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.look_seconds
        before, self._newest = self._newest, self._seen()
        self.noticed = before == self._newest != self._taken
        if self.noticed:
            self._taken = self._newest
        return self.noticed

    def taken(self, files: Iterable[File]) -> None:
        """The present files are about to be read, for any reason: they count as known."""
        self._files = tuple(files)
        self._taken = self._newest = self._seen()

    def _seen(self) -> _Seen:
        return tuple(_state(file) for file in self._files)


def _state(file: File) -> tuple[int, int, int] | None:
    with suppress(OSError):
        stat = os.stat(file)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
    return None
