"""How each kind of task is done: by which jig, and with which parameters where a list does not name them.

``timeout`` and ``interval`` are seconds. ``retries`` are attempts after the first; ``interval`` is the pause before each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import Kind

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

#: Kind → the jig of its roles. What is not here has nothing to run: jig noop.
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

#: Kind → the parameters that it has where a list says nothing else.
DEFAULTS: Final[Mapping[Kind, Mapping[str, Json]]] = MappingProxyType(
    {
        Kind.SHELL: _SHELL,
        Kind.MASTER_SHELL: _SHELL,
        Kind.PUPPET: {"cwd": "/", "timeout": 5400, "retries": 2, "interval": 2},
        Kind.UPLOAD_FILE: _UPLOAD,
        Kind.UPLOAD_FILES: _UPLOAD,
        Kind.COPY_FILES: {**_UPLOAD, "timeout": 300},
        Kind.SYNC: {"timeout": 300, "retries": 10, "interval": 2},
        Kind.REBOOT: {"timeout": 900, "retries": 0, "interval": 2},
    }
)


def completed(kind: Kind, parameters: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters of a task with the defaults of its kind.

    >>> completed(Kind.SHELL, {"cmd": "true", "retries": 5})
    {'cwd': '/', 'timeout': 300, 'retries': 5, 'interval': 2, 'cmd': 'true'}
    """
    return {**DEFAULTS.get(kind, {}), **parameters}
