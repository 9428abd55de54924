"""The whole table of record kinds: the rows of the model, and those of rollouts and task lists.

``at`` gives the kind of record that belongs at a path. Below a lock that is a contender; other znodes there have no kind.
"""

from __future__ import annotations

import re
from typing import Final

from nodepool_ocb.model import kinds
from nodepool_ocb.model.kinds import PathTree, RecordKind
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.store.locks import contenders
from nodepool_ocb.tasks.records import TaskListPart, TaskListRecord, TaskSettings
from nodepool_ocb.tasks.runs.records import Rows, Table, TaskRun

_ID: Final = re.compile(r"[0-9]{10}")
_PREFIXED_ID: Final = re.compile(r"[^-/]+-[0-9]{10}")

_ROLLOUT: Final = "/ocb/rollouts/{deployment}/{rollout}"
_TASK_RUN: Final = "/ocb/tasks/runs/{deployment}/{task_run}"
_RELEASE: Final = "/ocb/tasks/releases/{release}"
_DEPLOYMENT: Final = "/ocb/tasks/deployments/{deployment}"

KINDS: Final = (
    *kinds.KINDS,
    RecordKind(
        record=RolloutRecord,
        paths=(_ROLLOUT,),
        name="rollout",
        title="{deployment}/{rollout}",
        empty=True,
        numbered=True,
    ),
    RecordKind(
        record=GroupRecord,
        paths=(f"{_ROLLOUT}/groups/{{group}}",),
        name="group of a rollout",
        title="{deployment}/{rollout} {group}",
    ),
    RecordKind(
        record=NodesRecord,
        paths=(f"{_ROLLOUT}/nodes/{{part}}",),
        name="nodes of a rollout",
        title="{deployment}/{rollout} {part}",
    ),
    RecordKind(record=TaskListRecord, paths=(_RELEASE, _DEPLOYMENT), name="task list", empty=True),
    RecordKind(
        record=TaskListPart,
        paths=(f"{_RELEASE}/{{folder}}/{{part}}", f"{_DEPLOYMENT}/{{folder}}/{{part}}"),
        name="part of a task list",
        title="{release} {folder}/{part}",
    ),
    RecordKind(record=TaskSettings, paths=(f"{_DEPLOYMENT}/settings",), name="settings of a task list"),
    RecordKind(
        record=TaskRun,
        paths=(_TASK_RUN,),
        name="run of tasks",
        title="{deployment}/{task_run}",
        empty=True,
        numbered=True,
    ),
    RecordKind(
        record=Rows,
        paths=tuple(f"{_TASK_RUN}/{table}/{{part}}" for table in Table),
        name="table of a run of tasks",
        title="{deployment}/{task_run} {part}",
    ),
)

_TREE: Final = PathTree(KINDS)


def at(path: str) -> RecordKind | None:
    """The kind of record that belongs at a path; None for a folder, and for a znode of other software.

    >>> at("/ocb/nodes/n1.example.com/noderoles/ntp/user").name, at("/ocb/nodes"), at("/ocb/roles/ntp").record.__name__
    ('attributes', None, 'Role')
    """
    found = _TREE.find(path)
    if found is None or (found.kind.record is LockOwner and not contenders(found.names[-1:])):
        return None
    return found.kind


def secret(path: str) -> bool:
    """Whether no command shows the content at a path.

    >>> secret("/ocb/keys/logs"), secret("/ocb/cluster")
    (True, False)
    """
    row = at(path)
    return row is not None and row.secret


def misnumbered(path: str) -> str | None:
    """Why the last name of a path is no id of the records that belong there; None if it may be one.

    >>> misnumbered("/nodepool/requests/100-0000000007"), misnumbered("/nodepool/nodes/x")
    (None, 'its name is not ten digits')
    """
    row, name = at(path), path.rpartition("/")[2]
    if row is None or not row.numbered:
        return None
    if row.prefixed:
        return None if _PREFIXED_ID.fullmatch(name) else 'its name is not a priority, "-" and ten digits'
    return None if _ID.fullmatch(name) else "its name is not ten digits"
