"""Whether a build can be written: there is room on the disks, and they may be written to."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nodepool_ocb.daemon.preflight import unwritable

LOG_BYTES: Final = 1 << 20  # that are free where logs go, before a build begins: it writes to its log, or fails

EXHAUSTED_BYTES: Final = 1 << 16  # a build that ends with less free than this failed on a full disk

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def blocker(images: Path, logs: Path, free_bytes: int) -> str | None:
    """Why no build may begin on this host; None where one may."""
    refused = (
        f"{reason}; mend that, or name another folder"
        for folder in (images, logs)
        if folder.is_dir() and (reason := unwritable(folder))
    )
    return next(refused, None) or shortage([images], free_bytes) or shortage([logs], min(free_bytes, LOG_BYTES))


def kind(blocker: str | None) -> str | None:
    """The part of a message that stays while the room on the disk changes.

    >>> kind("3 bytes are free in /a, and more are wanted"), kind("/a is gone")
    (' in /a, and more are wanted', '/a is gone')
    """
    return blocker and (blocker.partition(" are free")[2] or blocker)


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


def exhausted(folders: Iterable[Path], tail: str) -> str | None:
    """The sentence for a build that failed on a full disk, here or on a disk that its log names; None for any other.

    ``tail``: the end of its log.
    """
    for folder in folders:
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(folder).free
            if free < EXHAUSTED_BYTES:
                return f"{os.strerror(errno.ENOSPC)}: {shown(free)} are free in {folder}"
    return os.strerror(errno.ENOSPC) if os.strerror(errno.ENOSPC) in tail else None


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
