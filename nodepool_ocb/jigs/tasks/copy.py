"""Jig task-copy: files of the annealer's host, which is the admin node then, become files on the machine."""

from __future__ import annotations

import errno
import socket
from typing import Final

import msgspec

from nodepool_ocb.documents import files as documents
from nodepool_ocb.jigs.tasks.files import FileParameters, script
from nodepool_ocb.jigs.tasks.sources import SourceJig
from nodepool_ocb.jigs.tasks.task import Lacking, OrderedTask, TaskRefused
from nodepool_ocb.tasks.tasklist import TaskKind

MOST_BYTES: Final = 4 << 20  # of the files of one task: the machine keeps the script that brings them
NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENAMETOOLONG})


class CopiedFile(msgspec.Struct, frozen=True):
    """A file and its place on the machine."""

    src: str
    dst: str


class Copy(FileParameters, frozen=True):
    """The parameters of copy_files."""

    files: tuple[CopiedFile, ...]


class CopyJig(SourceJig):
    name = "task-copy"

    def text(self, task: OrderedTask) -> str:
        copy = task.shaped(TaskKind.COPY_FILES, Copy)
        left, read = MOST_BYTES, []
        for pair in copy.files:
            content = _content(pair.src, self.source(pair.src), left)
            left -= len(content)
            read.append(copy.file(pair.dst, content))
        return script(read, task.noop)


def _content(src: str, path: str, left: int) -> bytes:
    """The file at ``path``, which the task calls ``src``.

    A missing file is this task's failure, and so is one that is too large. A file that cannot be read is a fault of
    this host.
    """
    host = socket.gethostname()
    try:
        content = documents.read(path, left)
    except OSError as error:
        said = f"src {src} on the annealer's host {host}: {error.strerror}; check the path and the mode there"
        raise (TaskRefused if error.errno in NOT_THERE else Lacking)(said) from error
    if len(content) > left:
        most = f"the files of one task may hold {MOST_BYTES} bytes; use sync for more"
        raise TaskRefused(f"src {src} on the annealer's host {host} is too large: {most}")
    return content
