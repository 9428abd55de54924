"""The common part of the jigs of copy_files and sync: they read files of the annealer's host, as far as it allows that."""

from __future__ import annotations

import socket

from nodepool_ocb.config import Settings, task_sources
from nodepool_ocb.documents.allowed import Outside
from nodepool_ocb.jigs.tasks.files import absolute
from nodepool_ocb.jigs.tasks.task import TaskJig, TaskRefused


class SourceJig(TaskJig):
    """A jig for tasks that name files or directories of this host."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._sources = task_sources(settings)

    def configure(self, settings: Settings) -> None:
        super().configure(settings)
        self._sources = task_sources(settings)

    def source(self, src: str) -> str:
        """The path without links, to be read instead of ``src``; raises TaskRefused."""
        try:
            return self._sources.resolve(absolute(src, "src"))
        except Outside as outside:
            host = socket.gethostname()
            said = f"src {outside}; see tasks.sources in the configuration of the annealer's host {host}"
            raise TaskRefused(said, outside.setting) from outside
