"""Whether there is room on the disks for another build."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def shortage(folders: Iterable[Path], free_bytes: int) -> str | None:
    """Why a build must not begin: a folder with less free than this; None when there is room in all."""
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            return f"{folder} cannot be used: {error.strerror}; make it, or name another folder"
        if free < free_bytes:
            return (
                f"{shown(free)} are free in {folder}, and a build begins with at least {shown(free_bytes)}; "
                "make room there, or lower builder.free_bytes"
            )
    return None


def shown(size: float) -> str:
    """A number of bytes for people.

    >>> shown(1 << 30), shown(1536), shown(0)
    ('1.0 GiB', '1.5 KiB', '0 bytes')
    """
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
