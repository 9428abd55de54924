"""Which jig does which kind of task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nodepool_ocb.tasks.tasklist import Kind

#: Kind → the jig of its roles. A kind that is not here has nothing to run: its jig is noop.
JIGS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        Kind.SHELL: "task-shell",
        Kind.MASTER_SHELL: "task-shell",
        Kind.PUPPET: "task-puppet",
        Kind.UPLOAD_FILE: "task-upload",
        Kind.UPLOAD_FILES: "task-upload",
        Kind.COPY_FILES: "task-copy",
        Kind.SYNC: "task-sync",
        Kind.REBOOT: "task-reboot",
    }
)
