"""Jig task-sync: a directory becomes one on the machine, by rsync.

A directory of the annealer's host, which is the admin node then, is pushed; ``rsync://HOST/...`` is fetched by the
machine itself.
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
from nodepool_ocb.jigs.tasks.task import Lacking, Refused, Task, TaskJig, program, task
from nodepool_ocb.tasks.tasklist import Kind


class Sync(msgspec.Struct, frozen=True):
    """Its parameters."""

    src: str  # with "/" at its end: what is in it; without: itself
    dst: str

    @property
    def fetched(self) -> bool:
        """Whether it comes from an rsync daemon."""
        return self.src.startswith("rsync://") or "::" in self.src.partition("/")[0]


class SyncJig(TaskJig):
    name = "task-sync"

    def text(self, task: Task) -> str:
        sync = task.shaped(Kind.SYNC, Sync)
        absolute(sync.dst, "dst")
        if not sync.fetched:
            _require(absolute(sync.src, "src"))
        values = {"src": sync.src, "dst": sync.dst, "noop": "yes" if task.noop else ""}
        return program("place.sh") + program("pull.sh" if sync.fetched else "receive.sh", **values)

    def beside(self, order: Order, link: Link) -> AbstractContextManager[object]:
        ordered = task(order)
        sync = ordered.shaped(Kind.SYNC, Sync)
        if sync.fetched:
            return super().beside(order, link)
        words = ["-c", "-r", "--delete", "-l", *(["-n", "-i"] if ordered.noop else []), "--", sync.src]
        settings = self._pool.settings
        return Push(order, link, settings.state_dir, settings.connect_timeout_seconds, words)


def _require(src: str) -> None:
    """That there is no such directory is this task's failure; what else is missing is a fault of this host."""
    host = socket.gethostname()
    if shutil.which("rsync") is None:
        raise Lacking(f"there is no program rsync on the annealer's host {host}; install the package rsync")
    if not Path(src).is_dir():
        raise Refused(f"src {src} on the annealer's host {host}: there is no such directory")
    if not os.access(src, os.R_OK | os.X_OK):
        raise Lacking(f"src {src} on the annealer's host {host}: it cannot be read")
