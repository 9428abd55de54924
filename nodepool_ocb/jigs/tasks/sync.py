"""Jig task-sync: makes a directory on the machine equal to a source, by rsync. With ``--delete``, rsync deletes files
that the source lacks.

A directory of the annealer's host, which is the admin node then, is pushed. The machine itself fetches
``rsync://HOST/...``.
"""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from nodepool_ocb.jigs.jig import Order
from nodepool_ocb.jigs.ssh.link import Link
from nodepool_ocb.jigs.tasks.files import absolute
from nodepool_ocb.jigs.tasks.push import Push
from nodepool_ocb.jigs.tasks.sources import SourceJig
from nodepool_ocb.jigs.tasks.task import Lacking, OrderedTask, TaskRefused, program, task
from nodepool_ocb.tasks.sources import fetched
from nodepool_ocb.tasks.tasklist import TaskKind


class Sync(msgspec.Struct, frozen=True):
    """Its parameters."""

    src: str  # with "/" at its end: its contents; without: itself
    dst: str


class SyncJig(SourceJig):
    name = "task-sync"

    def text(self, task: OrderedTask) -> str:
        sync = task.shaped(TaskKind.SYNC, Sync)
        absolute(sync.dst, "dst")
        if not fetched(sync.src):
            _require(sync.src, self.source(sync.src))
        values = {"src": sync.src, "dst": sync.dst, "noop": "yes" if task.noop else ""}
        return program("place.sh") + program("pull.sh" if fetched(sync.src) else "receive.sh", **values)

    def beside(self, order: Order, link: Link) -> AbstractContextManager[object]:
        ordered = task(order)
        sync = ordered.shaped(TaskKind.SYNC, Sync)
        if fetched(sync.src):
            return super().beside(order, link)
        words = ["-c", "-r", "--delete", "-l", *(["-n", "-i"] if ordered.noop else []), "--", self._path(sync.src)]
        settings = self._pool.settings
        return Push(order, link, settings.state_dir, settings.connect_timeout_seconds, words)

    def _path(self, src: str) -> str:
        """The source for rsync: without links, but under the name at the end of ``src``."""
        real = self.source(src)
        if src.endswith(("/", "/.")):
            return f"{real}/"
        return str(Path(os.path.realpath(Path(src).parent), Path(src).name))


def _require(src: str, path: str) -> None:
    """``path``: the directory that the task calls ``src``, without links.

    A missing directory is this task's failure. A missing rsync, or a directory that cannot be read, is a fault of this
    host.
    """
    host = socket.gethostname()
    if shutil.which("rsync") is None:
        raise Lacking(f"there is no program rsync on the annealer's host {host}; install the package rsync")
    if not Path(path).is_dir():
        raise TaskRefused(
            f"src {src} on the annealer's host {host}: there is no such directory; create it, or correct src"
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise Lacking(f"src {src} on the annealer's host {host}: it cannot be read; let the annealer's user read it")
