"""A small disk for one folder, which a test fills and frees, or makes read-only: a tmpfs of its own, unmounted at the end.

Mounting takes the rights of root: ask ``mountable`` first.
"""

from __future__ import annotations

import errno
import functools
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = b"\0" * 4096


@functools.cache
def mountable() -> bool:
    """Whether a tmpfs can be mounted here."""
    with tempfile.TemporaryDirectory(prefix="nodepool-ocb-disk-") as folder:
        try:
            with SmallDisk(Path(folder), 65536):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


class SmallDisk:
    """``folder``, made where it is absent, with no more room than ``size_bytes``; a context manager."""

    def __init__(self, folder: Path, size_bytes: int = 1 << 20) -> None:
        self.folder, self._size = folder, size_bytes
        self._ballast = folder / "ballast"
        self._protected = False

    def mount(self) -> Self:
        """Raises CalledProcessError or OSError where that is not allowed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={self._size},mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "nodepool-ocb-test", str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)
        return self

    def unmount(self) -> None:
        """At once, also while files on it are open."""
        self.writable()
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)

    def fill(self, but: int = 0) -> None:
        """Leave no room, or ``but`` bytes, in whole pages."""
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(_CHUNK)
            except OSError as full:
                if full.errno != errno.ENOSPC:
                    raise
            ballast.truncate(ballast.tell() - but)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def read_only(self) -> None:
        """No file in the folder can be opened for writing; files that are open stay writable."""
        folder = str(self.folder)
        subprocess.run(["mount", "--bind", "-o", "ro", folder, folder], check=True, capture_output=True)
        self._protected = True

    def writable(self) -> None:
        if self._protected:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True, capture_output=True)
            self._protected = False

    def __enter__(self) -> Self:
        return self.mount()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unmount()
