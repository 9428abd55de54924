"""How a file that a person names is read: a regular file, to its end or to a bound, and never waited for.

A FIFO, a device, a socket or a directory in the place of a file would keep its reader for ever, or have no end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Irregular(OSError):
    """The path leads to something else than a regular file."""

    def __init__(self, path: Path | str, what: str) -> None:
        super().__init__(errno.EINVAL, f"this is {what}, not a regular file", str(path))


def read(path: Path | str, most: int, *, follow: bool = True) -> bytes:
    """The bytes of a file, at most one more than ``most``. A result of that length means that the file is too large;
    the rest was not read.

    ``follow``: whether it may be a link. Raises OSError, Irregular among them; ``strerror`` is the reason in words.
    """
    with opened(path, follow=follow) as file:
        return file.read(most + 1)


def read_below(folder: Path | str, name: str, most: int) -> bytes:
    """As ``read``, of a file below a folder; neither the file nor a folder on the way to it from there may be a link."""
    whole, (*above, last) = Path(folder, name), Path(name).parts
    directory = os.open(folder, _FOLDER)
    try:
        for each in above:
            entered = os.open(each, _FOLDER | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = entered
        _require(whole, os.stat(last, dir_fd=directory, follow_symlinks=False))
        descriptor = os.open(last, _FLAGS | os.O_NOFOLLOW, dir_fd=directory)
    except ValueError as odd:
        raise OSError(errno.EINVAL, str(odd), str(whole)) from odd
    finally:
        os.close(directory)
    with open(descriptor, "rb") as file:
        _require(whole, os.fstat(descriptor))
        return file.read(most + 1)


def text(path: Path | str, most: int) -> str:
    """The content of a file, as UTF-8; raises OSError where it cannot be read, is larger, or is no text: ``strerror`` says it."""
    return decoded(read(path, most), most, path)


def decoded(data: bytes, most: int, path: Path | str) -> str:
    """The text of bytes that were read of a file; raises as ``text`` does."""
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes", str(path))
    try:
        return data.decode()
    except UnicodeDecodeError as odd:
        raise OSError(errno.EILSEQ, "it is no text", str(path)) from odd


@contextmanager
def opened(path: Path | str, *, follow: bool = True) -> Iterator[BinaryIO]:
    """The file, to be read; raises as ``read`` does."""
    flags = _FLAGS if follow else _FLAGS | os.O_NOFOLLOW
    require(path, follow=follow)  # before it is opened: a device may do something when it is
    try:
        descriptor = os.open(path, flags)
    except ValueError as odd:  # a zero byte in its name
        raise OSError(errno.EINVAL, str(odd), str(path)) from odd
    with open(descriptor, "rb") as file:
        _require(path, os.fstat(descriptor))
        yield file


def require(path: Path | str, *, follow: bool = True) -> None:
    """Raises OSError where there is no regular file, for readers of other people's making."""
    try:
        found = os.stat(path, follow_symlinks=follow)
    except ValueError as odd:
        raise OSError(errno.EINVAL, str(odd), str(path)) from odd
    _require(path, found)


def _require(path: Path | str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise Irregular(path, _KINDS.get(stat.S_IFMT(found.st_mode), "something else"))
