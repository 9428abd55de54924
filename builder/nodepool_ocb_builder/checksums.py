"""The checksums beside an image file: ``FILE.md5`` and ``FILE.sha256``, as md5sum and sha256sum write and check them.

They are on the disk before ``write`` comes back, each whole or not there, and so is the image file.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Final, TypedDict

from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid

ALGORITHMS: Final = ("md5", "sha256")
SUM_BYTES: Final = 4096
CHUNK_BYTES: Final = 1 << 20
#: The errors of a lost or damaged file. Any other error, such as too many open files, says nothing about it.
LOST: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.EBADMSG, errno.EUCLEAN})


class Sums(TypedDict):
    """The checksums of one file."""

    md5: str
    sha256: str
    size: int  # in bytes


def write(file: Path) -> Sums:
    """Read a file once and write its checksums beside it."""
    sums = compute(file)
    _to_disk(file)
    _write(beside(file, "md5"), f"{sums['md5']}  {file.name}\n")
    _write(beside(file, "sha256"), f"{sums['sha256']}  {file.name}\n")
    _to_disk(file.parent)
    return sums


def verify(file: Path) -> None:
    """Raises Invalid if a file is lost, differs from its checksums, or has none; OSError if it cannot be read now."""
    expected = {algorithm: _read(beside(file, algorithm)) for algorithm in ALGORITHMS}
    found = {**compute(file)}
    problems = [
        f"{file}: its {algorithm} is {found[algorithm]}, and {beside(file, algorithm).name} says {expected[algorithm]}"
        for algorithm in ALGORITHMS
        if found[algorithm] != expected[algorithm]
    ]
    if problems:
        raise Invalid([f"{problem}; the file is damaged: build the image again" for problem in problems])


def noted(file: Path) -> Sums:
    """The checksums beside a file, with its size. Raises as ``verify`` does."""
    return Sums(md5=_read(beside(file, "md5")), sha256=_read(beside(file, "sha256")), size=file.stat().st_size)


def compute(file: Path) -> Sums:
    """Read a file once; raises Invalid where it is lost, and OSError."""
    md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    try:
        with file.open("rb", buffering=0) as source:
            while chunk := source.read(CHUNK_BYTES):
                md5.update(chunk)
                sha256.update(chunk)
                size += len(chunk)
    except OSError as error:
        if error.errno not in LOST:
            raise
        raise Invalid(f"{file} cannot be read: {error.strerror}; build the image again") from error
    return Sums(md5=md5.hexdigest(), sha256=sha256.hexdigest(), size=size)


def beside(file: Path, algorithm: str) -> Path:
    """The file with the checksum of a file.

    >>> beside(Path("/images/jammy-0000000001.raw"), "md5").name
    'jammy-0000000001.raw.md5'
    """
    return file.with_name(f"{file.name}.{algorithm}")


def _to_disk(path: Path) -> None:
    """Write the content of a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(file: Path, line: str) -> None:
    temporary = file.with_name(f"{file.name}.new")  # of the build by its name, should we die before it is renamed
    with temporary.open("w", encoding="utf-8") as target:
        target.write(line)
        target.flush()
        os.fsync(target.fileno())
    temporary.rename(file)


def _read(file: Path) -> str:
    """The sum in a checksum file; raises Invalid, and OSError, as ``verify`` does."""
    try:
        words = files.read(file, SUM_BYTES).decode(errors="replace").split()
    except OSError as error:
        if error.errno not in LOST:
            raise
        raise Invalid(f"{file} cannot be read: {error.strerror}; build the image again") from error
    if not words:
        raise Invalid(f"{file} is empty; build the image again")
    return words[0].lower()
