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
from nodepool_ocb.model.images import Build
from nodepool_ocb.store import kinds, rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.client.tree import NATIVE, ImageTree
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.store.world.paths import Kind, misnamed, parse

ATTRIBUTES: Final = "attributes"

#: Requests, nodes of pools, and launchers.
POOL: Final = (paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES, paths.COMPONENTS)

#: All that is ours.
EVERYTHING: Final = (paths.ROOT, paths.IMAGES, "/nodepool/daemons", *POOL)

_ID: Final = re.compile(r"[0-9]{10}")


def kind(path: str) -> Kind | str | None:
    """The record that belongs at a path, or ATTRIBUTES; None for a folder, and for a znode of other software.

    >>> kind("/ocb/nodes/n1.example.com/noderoles/ntp/user"), kind("/ocb/nodes"), kind("/ocb/roles/ntp").__name__
    ('attributes', None, 'Role')
    """
    row = kinds.at(path)
    return None if row is None else row.record or ATTRIBUTES


def problem(znode: Znode, tree: ImageTree = NATIVE) -> str | None:
    """Why the record in this znode cannot be read; None if it can, or if no reader expects a record there."""
    row, at = kinds.at(znode.path), parse(znode.path)
    wrong = misnamed(at) if at is not None else None
    if wrong is not None or row is None:
        return wrong
    if row.empty and not znode.data:
        return None
    try:
        if row.record is None:
            codec.attributes(znode)
        else:
            codec.decode(row.record, znode)
    except Invalid as invalid:
        return str(invalid).removeprefix(f"{znode.path}: ")
    if row.record is Build and tree.ids.fullmatch(znode.path.rpartition("/")[2]):
        return None
    return kinds.misnumbered(znode.path)


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


def unread(session: SessionReads, above: Sequence[str] = EVERYTHING) -> dict[str, str]:
    """The paths in these parts of the tree that cannot be read, each with the reason.

    The znodes are read one after the other, so that the largest tree has room.
    """
    found: dict[str, str] = {}
    level = list(above)
    while level:
        found |= _faults(session.stream(path for path in level if kind(path) is not None), session.tree)
        level = _named(session, level)
    return found


def at_a_glance(session: Session, locks: Iterable[str], nodes: bool) -> dict[str, str]:
    """Unreadable records beside those of a world and images: rollouts, runs of tasks, task lists, the journal, pauses, locks,
    MACs, addresses, pools.

    ``nodes``: also the attributes and runs of all noderoles.
    """
    others = [
        paths.TASK_RELEASES,
        paths.TASK_DEPLOYMENTS,
        paths.JOURNAL_ENTRIES,
        paths.JOURNAL_POOL,
        paths.PAUSED,
        paths.TOKENS,
        paths.REGISTRATIONS,
        paths.ADOPTION,
        paths.MACS,
        paths.NETWORKS,
        paths.KEYS,
        paths.CALLS,
        paths.MACS,
        paths.NETWORKS,
        paths.PAUSED_BUILDERS,
        *POOL,
    ]
    return (
        of_rollouts(session)
        | of_task_runs(session)
        | unread(session, [*others, *([paths.NODES] if nodes else ())])
        | of_locks(session, [paths.WEBHOOK_LOCK, *locks])
    )


def of_locks(session: SessionReads, locks: Iterable[str]) -> dict[str, str]:
    """The contenders of these locks with a record that cannot be read, each with the reason."""
    return _faults(session.get_many(_named(session, list(locks))))


def _named(session: SessionReads, folders: list[str]) -> list[str]:
    """The paths of the children of these folders."""
    listed = session.children_many(folders)
    return [f"{folder}/{name}" for folder, names in zip(folders, listed, strict=True) for name in sorted(names or ())]


def _faults(znodes: Iterable[Znode | None], tree: ImageTree = NATIVE) -> dict[str, str]:
    def reasons() -> Iterator[tuple[str, str]]:
        for znode in znodes:
            wrong = problem(znode, tree) if znode is not None else None
            if znode is not None and wrong is not None:
                yield znode.path, wrong

    return dict(reasons())
