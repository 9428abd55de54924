"""Which jig does which kind of task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nodepool_ocb.tasks.tasklist import TaskKind

#: Kind → the jig of its roles. A kind that is not here has nothing to run: its jig is noop.
JIGS: Final[Mapping[TaskKind, str]] = MappingProxyType(
    {
        TaskKind.SHELL: "task-shell",
        TaskKind.MASTER_SHELL: "task-shell",
        TaskKind.PUPPET: "task-puppet",
        TaskKind.UPLOAD_FILE: "task-upload",
        TaskKind.UPLOAD_FILES: "task-upload",
        TaskKind.COPY_FILES: "task-copy",
        TaskKind.SYNC: "task-sync",
        TaskKind.REBOOT: "task-reboot",
        TaskKind.PROVISION: "task-provision",
        TaskKind.ERASE_NODE: "task-erase",
    }
)
