"""Which record belongs at a path, whether what is there can be read, and every record of the tree that cannot be.

For people: daemons find what they meet themselves (store.tree, store.images). Attributes and records of runs are looked at
only where somebody asks for their path, for there are many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, Pause, Upload
from nodepool_ocb.model.journal import Webhook
from nodepool_ocb.model.records import Given, LockOwner, Run
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import Reading
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import contenders
from nodepool_ocb.store.worldpaths import Kind, misnamed, parse
from nodepool_ocb.tasks.runs.records import Rows, Table, TaskRun

ATTRIBUTES: Final = "attributes"

_ID: Final = re.compile(r"[0-9]{10}")


def kind(path: str) -> Kind | str | None:
    """The record that belongs at a path, or ATTRIBUTES; None for what holds nothing, and for what is not ours.

    >>> kind("/ocb/nodes/n1.example.com/noderoles/ntp/user"), kind("/ocb/nodes"), kind("/ocb/roles/ntp").__name__
    ('attributes', None, 'Role')
    """
    at = parse(path)
    if at is not None:
        return at.kind
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
        case ["ocb", "tasks", "runs", _, _]:
            return TaskRun
        case ["ocb", "tasks", "runs", _, _, "facts", _]:
            return ATTRIBUTES
        case ["ocb", "tasks", "runs", _, _, table, _] if table in list(Table):
            return Rows
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
    if belongs in (RolloutRecord, BuildRequest, Pause, Webhook) and not znode.data:
        return None  # a rollout that was never begun, a flag that says nothing, a webhook that nobody has
    try:
        if isinstance(belongs, str):
            codec.attributes(znode)
        else:
            codec.decode(belongs, znode)
    except Invalid as invalid:
        return str(invalid).removeprefix(f"{znode.path}: ")
    return "this is no id of ten digits" if belongs in (Build, Upload, RolloutRecord) and not _numbered(znode) else None


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


def of_task_runs(session: Reading) -> dict[str, str]:
    """The paths of runs of tasks that cannot be read, each with the reason."""
    names = _named(session, [paths.task_runs(each) for each in session.children(paths.TASK_RUNS) or ()])
    return _faults(session.get_many(names))


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
