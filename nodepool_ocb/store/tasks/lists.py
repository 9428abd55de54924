"""Task lists in ZooKeeper, of releases and of deployments: uploaded whole, read whole, and deleted.

An upload writes its parts below a folder of its own. Then it writes the record that names the folder, in one
transaction with checks of the records that it read. So a reader has the old list or the new one. An upload over a list
that changed since it was read is refused. The next upload deletes the parts of an unfinished one. Records of a former
deployment of the name count as absent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, Invalid, NotFound, OutcomeUnknown, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.ranges import is_name
from nodepool_ocb.model.records import Change, Check, Create, Delete, Json, Set
from nodepool_ocb.store import subtree
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import lines, pointers
from nodepool_ocb.store.driven.pointers import ATTEMPTS, again
from nodepool_ocb.tasks import records
from nodepool_ocb.tasks.records import ListOwner, StoredList, TaskListPart, TaskListRecord, TaskSettings

BYTES: Final = 8 << 20  # of the texts of a list
SETTINGS: Final = "settings"
_UPLOAD: Final = "list-"


def release(name: str) -> ListOwner:
    return ListOwner(False, name)


def deployment(name: str) -> ListOwner:
    return ListOwner(True, name)


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about an upload that are stored beside its texts."""

    tasks: int
    by: str | None = None
    lenient: bool = False
    compat_prefix: bool = False


class _Ground(NamedTuple):
    """The base of a list: the checks of its deployment and that deployment's life; empty for a release."""

    checks: tuple[Check, ...] = ()
    life: float = 0.0


#: A record as it is, and the life of its deployment → as it is to be.
After: TypeAlias = Callable[[TaskListRecord, float], TaskListRecord]


# -- reading --


def read(session: Session, owner: ListOwner) -> StoredList:
    """The list, with a deployment's release and settings.

    Raises NotFound if the deployment does not exist, Invalid if a record cannot be read, and Stale if the list is
    replaced again and again.
    """
    for _ in range(ATTEMPTS):
        ground = _ground(session, owner)
        record, version = _head(session.get(owner.path()), ground)
        settings, settings_version = _settings(session, owner, ground)
        texts = _texts(session, owner, record) if record.upload else {}
        if texts is not None:
            return StoredList(record, version, texts, settings, settings_version)
    raise Stale(
        f"the task list of {owner} is replaced again and again, or is not whole; upload it anew, with --force",
        owner.path(),
    )


def remains(session: Session, owner: ListOwner) -> StoredList:
    """As ``read``, for a list that cannot be read: unreadable parts count as absent. Raises NotFound as ``read`` does."""
    ground = _ground(session, owner)
    record, version = _whatever(session.get(owner.path()), ground)
    settings, settings_version = _readable_settings(session, owner, ground)
    texts = None
    with contextlib.suppress(Invalid):
        texts = _texts(session, owner, record) if record.upload else None
    return StoredList(record, version, texts or {}, settings, settings_version)


def configured(session: Session, owner: ListOwner) -> bool:
    """Whether it has settings that can be read; raises NotFound where there is no such deployment."""
    return bool(_readable_settings(session, owner, _ground(session, owner))[0])


def _written_to(session: Session, owner: ListOwner) -> _Ground:
    """As ``_ground``, for a write: raises Conflict where a deletion of the deployment has begun."""
    ground = _ground(session, owner)
    if owner.deployment:
        lines.refuse_deleting(session, owner.name)
    return ground


def _ground(session: Session, owner: ListOwner) -> _Ground:
    if not owner.deployment:
        return _Ground()
    path = paths.deployment(owner.name)
    znode = session.get(path)
    if znode is None:
        raise NotFound(f"deployment {owner.name} does not exist; see: nodepool-ocb deployment list")
    return _Ground((Check(path, znode.version),), znode.ctime)


def _head(znode: Znode | None, ground: _Ground) -> tuple[TaskListRecord, int]:
    """The record and its version; a record of a former deployment counts as empty."""
    if znode is None:
        return TaskListRecord(), -1
    record = codec.decode(TaskListRecord, znode) if znode.data else TaskListRecord()
    return record if record.life == ground.life else TaskListRecord(), znode.version


def _settings(session: Session, owner: ListOwner, ground: _Ground) -> tuple[Mapping[str, Json], int]:
    znode = session.get(owner.path(SETTINGS)) if owner.deployment else None
    if znode is None:
        return {}, -1
    record = codec.decode(TaskSettings, znode)
    return record.settings if record.life == ground.life else {}, znode.version


def _readable_settings(session: Session, owner: ListOwner, ground: _Ground) -> tuple[Mapping[str, Json], int]:
    try:
        return _settings(session, owner, ground)
    except Invalid:
        return {}, -1


def _texts(session: Session, owner: ListOwner, record: TaskListRecord) -> dict[str, str] | None:
    """None where the upload that the record names is not there any more."""
    wanted = [owner.path(f"{record.upload}/{number:04}") for number in range(record.parts)]
    znodes = [znode for znode in session.get_many(wanted) if znode is not None]
    if len(znodes) < len(wanted):
        return None
    return records.joined(codec.decode(TaskListPart, znode) for znode in znodes)


def listed(session: Session) -> dict[ListOwner, TaskListRecord]:
    """The list of every release and deployment. Records that cannot be read, and those of former deployments, are left
    out.
    """
    owners = [release(name) for name in sorted(session.children(paths.TASK_RELEASES) or ())]
    owners += [deployment(name) for name in sorted(session.children(paths.TASK_DEPLOYMENTS) or ())]
    found: dict[ListOwner, TaskListRecord] = {}
    for owner, znode in zip(owners, session.get_many([owner.path() for owner in owners]), strict=True):
        with contextlib.suppress(Invalid, NotFound):
            record, _ = _head(znode, _ground(session, owner))
            if record != TaskListRecord():
                found[owner] = record
    return found


# -- writing --


def upload(
    session: Session, owner: ListOwner, texts: Mapping[str, str], meta: Meta, seen: int | None
) -> TaskListRecord:
    """Replace the list if its version is still ``seen``; None: any version.

    Raises Conflict if it has another version by now, Invalid for a name or a size that is not allowed. Raises NotFound
    if the deployment does not exist.
    """
    if not is_name(owner.name):
        raise Invalid(f"{owner.name!r} is no name; use small letters, digits, '-', '_' and '.', at most 63")
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
    if size > BYTES:
        raise Invalid(f"the files of {owner} are larger than {BYTES >> 20} MiB together; divide the list")
    _written_to(session, owner)
    parts = records.divided(texts)
    folder = _written(session, owner, parts)
    name = folder.rpartition("/")[2]

    def after(before: TaskListRecord, life: float) -> TaskListRecord:
        if before.upload > name:  # which deletes all before it, this one too
            raise _changed(owner, before)
        return replace(
            before,
            upload=name, parts=len(parts), files=len(texts), tasks=meta.tasks, text_bytes=size, since=session.now(),
            by=meta.by, lenient=meta.lenient, compat_prefix=meta.compat_prefix, life=life,
        )  # fmt: skip

    try:
        made = _entered(session, owner, after, seen, (Check(folder, 0),))
    except (Conflict, NotFound):  # else it may have been entered
        _remove(session, folder)
        raise
    _forget(session, owner, name)
    return made


def _written(session: Session, owner: ListOwner, parts: Sequence[TaskListPart]) -> str:
    """The folder with all parts of an upload, which no record names yet."""
    session.ensure(owner.path())
    folder = session.create_next(owner.path(_UPLOAD), None)
    made = [Create(f"{folder}/{number:04}", part) for number, part in enumerate(parts)]
    for changes in limits.parts(limits.singly(made)):
        session.commit(changes)
    return folder


def _entered(
    session: Session, owner: ListOwner, after: After, seen: int | None, checks: Sequence[Check] = ()
) -> TaskListRecord:
    """Write the record that counts from now on, again where others write meanwhile."""
    for _ in range(ATTEMPTS):
        ground = _written_to(session, owner)
        znode = session.get(owner.path())
        if znode is None:  # deleted meanwhile; version -1 would stand for any
            session.ensure(owner.path())
            continue
        before, version = _whatever(znode, ground) if seen is None else _head(znode, ground)
        if seen not in (None, version) and not (seen == -1 and before == TaskListRecord()):
            raise _changed(owner, before)
        record = after(before, ground.life)
        try:
            session.commit([*ground.checks, *checks, Set(owner.path(), record, version)])
        except Stale as stale:
            if stale.path in {check.path for check in checks}:  # a newer upload deleted this one
                raise _changed(owner, before) from stale
        else:
            return record
    raise _changed(owner, TaskListRecord())


def _changed(owner: ListOwner, before: TaskListRecord) -> Conflict:
    by = f", by {before.by}" if before.by else ""
    return Conflict(
        f"the task list of {owner} was changed meanwhile{by}; look at it, and then upload again, or with --force"
    )


def _whatever(znode: Znode | None, ground: _Ground) -> tuple[TaskListRecord, int]:
    """As ``_head``; an unreadable record counts as empty."""
    try:
        return _head(znode, ground)
    except Invalid:
        return TaskListRecord(), znode.version if znode else -1


def _forget(session: Session, owner: ListOwner, newest: str) -> None:
    """Delete the uploads before the newest. The next upload deletes the rest."""
    for name in session.children(owner.path()) or ():
        if name.startswith(_UPLOAD) and name < newest:
            _remove(session, owner.path(name))


def _remove(session: Session, folder: str) -> None:
    with contextlib.suppress(Stale, OutcomeUnknown):  # another removes it, too, or may have
        for deletions in limits.parts(limits.singly(subtree.removal(session, folder))):
            session.commit(deletions)


def base(session: Session, name: str, below: str | None) -> TaskListRecord:
    """Let the list of a release lie below a deployment's own, or none; raises NotFound where either is not there."""
    if below is not None and not read(session, release(below)).there:
        raise NotFound(f"release {below} has no task list; see: nodepool-ocb tasks list")
    owner = deployment(name)
    _written_to(session, owner)
    session.ensure(owner.path())

    def after(before: TaskListRecord, life: float) -> TaskListRecord:
        return replace(before, release=below, life=life)

    return _entered(session, owner, after, None)


def configure(session: Session, name: str, settings: Mapping[str, Json], by: str | None, seen: int | None) -> None:
    """Replace the settings of a deployment if their version is still ``seen`` (None: any version).

    Raises Conflict if they have another version by now, Invalid if they are too large, NotFound if the deployment does
    not exist.
    """
    owner = deployment(name)
    path = owner.path(SETTINGS)

    def write() -> None:
        ground = _written_to(session, owner)
        session.ensure(owner.path())
        version = znode.version if (znode := session.get(path)) else -1
        if seen not in (None, version):
            raise Conflict(f"the settings of {owner} were changed meanwhile; look at them, and then write them again")
        record = TaskSettings(settings=settings, since=session.now(), by=by, life=ground.life)
        change: Change = Create(path, record) if version < 0 else Set(path, record, version)
        session.commit([*ground.checks, change])

    again(write)


def removal(session: Session, owner: ListOwner) -> list[Change]:
    """The deletions of all znodes of an owner, the record last.

    If they do not fit into one transaction, the record is emptied first. A deletion that stops half-way then leaves no
    list, and no record that names deleted files.
    """
    znodes = subtree.subtree(session, owner.path())
    deletions: list[Change] = [Delete(each.path, each.version) for each in znodes]
    return deletions if limits.fits(deletions) else pointers.emptied(znodes, [owner.path()])
