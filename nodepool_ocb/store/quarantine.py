"""The record that belongs at a path, the problem of the record that is there, and every record that cannot be read.

Daemons find unreadable records as they meet them (store.world.load, store.images); this module is for people. ``unread``
reads whole parts of the tree. ``at_a_glance`` leaves out the kinds with many records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, Pause, Upload
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.records import DaemonPause, Given, LockOwner, Run
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import Reading
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import contenders
from nodepool_ocb.store.tasks import lists, runs
from nodepool_ocb.store.world.paths import Kind, misnamed, parse
from nodepool_ocb.tasks.records import TaskListPart, TaskListRecord, TaskSettings
from nodepool_ocb.tasks.runs.records import Rows, Table, TaskRun

ATTRIBUTES: Final = "attributes"

#: All that is ours.
EVERYTHING: Final = (paths.ROOT, paths.IMAGES, "/nodepool/daemons")

#: Records that may be empty: not begun yet, a flag that says nothing, a webhook that nobody has.
EMPTY: Final = (RolloutRecord, TaskRun, TaskListRecord, BuildRequest, Pause, Webhook)

_ID: Final = re.compile(r"[0-9]{10}")


def kind(path: str) -> Kind | str | None:
    """The record that belongs at a path, or ATTRIBUTES; None for what holds nothing, and for what is not ours.

    >>> kind("/ocb/nodes/n1.example.com/noderoles/ntp/user"), kind("/ocb/nodes"), kind("/ocb/roles/ntp").__name__
    ('attributes', None, 'Role')
    """
    at = parse(path)
    if at is not None and path.rpartition("/")[0] != paths.PAUSED_BUILDERS:
        return at.kind
    return _kind_of_task_lists(path) or _kind(path)


def _kind_of_task_lists(path: str) -> Kind | str | None:
    match path.split("/")[1:]:
        case ["ocb", "tasks", "releases" | "deployments", _]:
            return TaskListRecord
        case ["ocb", "tasks", "deployments", _, lists.SETTINGS]:
            return TaskSettings
        case ["ocb", "tasks", "releases" | "deployments", _, _, _]:
            return TaskListPart
        case ["ocb", "tasks", "runs", _, _]:
            return TaskRun
        case ["ocb", "tasks", "runs", _, _, "facts", _]:
            return ATTRIBUTES
        case ["ocb", "tasks", "runs", _, _, "lock", contender]:
            return LockOwner if contenders([contender]) else None
        case ["ocb", "tasks", "runs", _, _, table, _] if table in list(Table):
            return Rows
    return None


def _kind(path: str) -> Kind | str | None:
    match path.split("/")[1:]:
        case ["ocb", "nodes", _, "noderoles", _, "user" | "system" | "wall"]:
            return ATTRIBUTES
        case ["ocb", "nodes", _, "noderoles", _, "given"]:
            return Given
        case ["ocb", "nodes", _, "noderoles", _, "runs", _]:
            return Run
        case ["ocb", "rollouts", _, _]:
            return RolloutRecord
        case ["ocb", "rollouts", _, _, "groups", _]:
            return GroupRecord
        case ["ocb", "rollouts", _, _, "nodes", _]:
            return NodesRecord
        case ["ocb", "journal", "webhook"]:
            return Webhook
        case ["ocb", "journal", "entries", _]:
            return Entry
        case ["ocb", "paused", _, _] | ["nodepool", "daemons", "paused", _, _]:
            return DaemonPause
        case ["nodepool", "image", _, "request-build"]:
            return BuildRequest
        case ["nodepool", "image", _, "pause"]:
            return Pause
        case (
            ["nodepool", "image", *_, "lock", contender]
            | ["ocb", "rollouts", _, _, "lock", contender]
            | ["ocb", "journal", "webhook", "lock", contender]
        ):
            return LockOwner if contenders([contender]) else None
        case ["nodepool", "image", _, "builds", build] if build != "lock":
            return Build
        case ["nodepool", "image", _, "builds", _, "provider", _, "images", upload] if upload != "lock":
            return Upload
    return None


def problem(znode: Znode) -> str | None:
    """Why what is there cannot be read; None where it can, or where nothing that is read belongs there."""
    belongs = kind(znode.path)
    at = parse(znode.path)
    wrong = misnamed(at) if at is not None else None
    if wrong is not None or belongs is None:
        return wrong
    if belongs in EMPTY and not znode.data:
        return None
    try:
        if isinstance(belongs, str):
            codec.attributes(znode)
        else:
            codec.decode(belongs, znode)
    except Invalid as invalid:
        return str(invalid).removeprefix(f"{znode.path}: ")
    numbered = belongs in (Build, Upload, RolloutRecord, TaskRun, Entry)
    return "this is no id of ten digits" if numbered and not _numbered(znode) else None


def _numbered(znode: Znode) -> bool:
    return _ID.fullmatch(znode.path.rpartition("/")[2]) is not None


def of_rollouts(session: Session) -> dict[str, str]:
    """The paths of rollouts that cannot be read, of their parts and of their locks, each with the reason."""
    names = _named(session, [paths.rollouts(each) for each in session.children(paths.ROLLOUTS) or ()])
    folders = [f"{path}/{part}" for path in names for part in ("groups", "nodes", "lock")]
    znodes = session.get_many([*names, *_named(session, folders)])
    found = _faults(znodes)
    for deployment, identity in (path.rsplit("/", 2)[1:] for path in names if _ID.fullmatch(path.rpartition("/")[2])):
        whole = paths.rollout(deployment, identity)
        if not any(path == whole or path.startswith(f"{whole}/") for path in found):
            try:
                rollouts.read(session, deployment, identity)
            except Invalid as wrong:
                found[whole] = str(wrong).removeprefix(f"{whole}: ")
    return found


def of_task_runs(session: Session) -> dict[str, str]:
    """The paths of runs of tasks that cannot be read, each with the reason; of the newest of a deployment, also its parts."""
    names = _named(session, [paths.task_runs(each) for each in session.children(paths.TASK_RUNS) or ()])
    found = _faults(session.get_many(names))
    newest = {path.rpartition("/")[0]: path for path in names if _ID.fullmatch(path.rpartition("/")[2])}
    parts = unread(session, sorted(newest.values()))
    for path in newest.values():
        if path not in found and not any(each.startswith(f"{path}/") for each in parts):
            try:
                runs.read(session, *path.rsplit("/", 2)[1:])
            except Invalid as wrong:
                found[path] = str(wrong).removeprefix(f"{path}: ")
    return found | parts


def unread(session: Reading, above: Sequence[str] = EVERYTHING) -> dict[str, str]:
    """The paths in these parts of the tree that cannot be read, each with the reason.

    The znodes are read one after the other, so that the largest tree has room.
    """
    found: dict[str, str] = {}
    level = list(above)
    while level:
        found |= _faults(session.stream(path for path in level if kind(path) is not None))
        level = _named(session, level)
    return found


def at_a_glance(session: Session, locks: Iterable[str], nodes: bool) -> dict[str, str]:
    """Unreadable records beside those of a world and images: rollouts, runs of tasks, task lists, the journal, pauses, locks.

    ``nodes``: also the attributes and runs of all noderoles.
    """
    others = [paths.TASK_RELEASES, paths.TASK_DEPLOYMENTS, paths.JOURNAL_ENTRIES, paths.PAUSED, paths.PAUSED_BUILDERS]
    return (
        of_rollouts(session)
        | of_task_runs(session)
        | unread(session, [*others, *([paths.NODES] if nodes else ())])
        | of_locks(session, [paths.WEBHOOK_LOCK, *locks])
    )


def of_locks(session: Reading, locks: Iterable[str]) -> dict[str, str]:
    """The contenders of these locks that do not say who they are, each with the reason."""
    return _faults(session.get_many(_named(session, list(locks))))


def _named(session: Reading, folders: list[str]) -> list[str]:
    """The paths of what is in these folders."""
    listed = session.children_many(folders)
    return [f"{folder}/{name}" for folder, names in zip(folders, listed, strict=True) for name in sorted(names or ())]


def _faults(znodes: Iterable[Znode | None]) -> dict[str, str]:
    def reasons() -> Iterator[tuple[str, str]]:
        for znode in znodes:
            wrong = problem(znode) if znode is not None else None
            if znode is not None and wrong is not None:
                yield znode.path, wrong

    return dict(reasons())
