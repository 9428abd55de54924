"""The parameters of a task as its jig gets them: with the defaults of its kind, under one name each.

``timeout`` and ``interval`` are seconds; ``retries`` are attempts after the first, ``interval`` is the pause before each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import Task, TaskKind

_FILE: Final[Mapping[str, Json]] = {
    "permissions": "0644",
    "dir_permissions": "0755",
    "user": "root",
    "group": "root",
    "overwrite": True,
    "parents": True,
}
_SHELL: Final[Mapping[str, Json]] = {"cwd": "/", "timeout": 300, "retries": 2, "interval": 2}
_UPLOAD: Final[Mapping[str, Json]] = {**_FILE, "timeout": 60, "retries": 3, "interval": 2}

#: Kind → its default parameters.
DEFAULTS: Final[Mapping[TaskKind, Mapping[str, Json]]] = MappingProxyType(
    {
        TaskKind.SHELL: _SHELL,
        TaskKind.MASTER_SHELL: _SHELL,
        TaskKind.PUPPET: {"cwd": "/", "timeout": 5400, "retries": 2, "interval": 2},
        TaskKind.UPLOAD_FILE: _UPLOAD,
        TaskKind.UPLOAD_FILES: _UPLOAD,
        TaskKind.COPY_FILES: {**_UPLOAD, "timeout": 300},
        TaskKind.SYNC: {"timeout": 300, "retries": 10, "interval": 2},
        TaskKind.REBOOT: {"timeout": 900, "retries": 0, "interval": 2},
        TaskKind.PROVISION: {"timeout": 3600, "retries": 0, "interval": 2},
        TaskKind.ERASE_NODE: {"timeout": 180, "retries": 0, "interval": 2, "method": "overwrite"},
    }
)

#: The name of a parameter in documents → its name here.
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"user_owner": "user", "group_owner": "group", "puppet_manifests": "puppet_manifest"}
)


def completed(task: Task) -> dict[str, Json]:
    """A task's parameters with the defaults of its kind; ``nodes`` of upload_files is a mapping, uid → files.

    >>> completed(Task(id="a", kind=TaskKind.SHELL, parameters={"cmd": "true", "retries": 5}))
    {'cwd': '/', 'timeout': 300, 'retries': 5, 'interval': 2, 'cmd': 'true'}
    """
    own = {OTHER_NAMES.get(name, name): value for name, value in task.parameters.items()}
    if isinstance(own.get("nodes"), list):
        own["nodes"] = _by_uid(own["nodes"])
    return {**DEFAULTS.get(task.kind, {}), **own}


def _by_uid(nodes: list[Any]) -> dict[str, Json]:
    found: dict[str, list[Json]] = {}
    for each in nodes:
        found.setdefault(str(each["uid"]), []).extend(each["files"])
    return found
