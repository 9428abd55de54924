"""Which files of this host a document may name: those below the directories of a setting, and never a key.

The author of a task list or of an attribute is not the owner of this host. Without a bound such an author reads any file
that the daemon can read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid

_LISTED: Final = 3  # directories in a sentence


class Outside(Invalid):
    """A file may not be read; ``setting`` names the setting that does not allow it."""

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """The directories that a setting allows, and the paths that are refused even below them."""

    setting: str  # as it is written: "tasks.sources"
    directories: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # files and directories

    def resolve(self, path: str) -> str:
        """The path without links, to be read instead of ``path``; raises Outside.

        A directory is refused, too, where a key is below it.
        """
        real = _real(path)
        if real is None:
            raise Outside(f"{path!r} can be no path of a file; correct it", self.setting)
        if not any(_below(real, _real(each)) for each in self.directories):
            raise Outside(f"{path} is outside {self.setting} ({self._listed()})", self.setting)
        for key in self.keys:
            if _below(real, _real(key)) or _below(_real(key), real) or _same(real, key):
                raise Outside(
                    f"{path} is, or holds, a key of this host ({key}), which is never given out", self.setting
                )
        return real

    def _listed(self) -> str:
        more = ", ..." if len(self.directories) > _LISTED else ""
        return (", ".join(self.directories[:_LISTED]) + more) or "it is not set"


def _real(path: str) -> str | None:
    """The absolute path without links; None for text that can be no path."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a zero byte
        return None


def _below(path: str | None, directory: str | None) -> bool:
    """Whether it is the directory, or below it."""
    if path is None or directory is None:
        return False
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _same(path: str, key: str) -> bool:
    """Whether both are one file, under two names."""
    try:
        return os.path.samefile(path, key)
    except (OSError, ValueError):
        return False


def keys(names: Sequence[str | None]) -> tuple[str, ...]:
    """Those that are set."""
    return tuple(name for name in names if name)
