"""The changes that a command made, or would make, with the names that people use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, Protocol, TypeAlias

import msgspec

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, Pause, Upload
from nodepool_ocb.model.joining import AdoptionRule, MachineRegistration
from nodepool_ocb.model.kinds import KINDS, PathTree
from nodepool_ocb.model.networks import MacOwner, NetworkAddress
from nodepool_ocb.model.pool import NodeRequest, PoolNode
from nodepool_ocb.model.records import (
    Append,
    Change,
    Check,
    Claim,
    Create,
    DaemonPause,
    Delete,
    DeploymentRole,
    Fence,
    Gate,
    Json,
    LogKey,
    Node,
    NodeRole,
    Raise,
    Rare,
    Record,
    Set,
    Structure,
    keys_of,
)
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.views import differences
from nodepool_ocb.views.differences import FieldRow
from nodepool_ocb.views.view import View, whole

_OF_CHECK: Final = frozenset({"check", "checked", "mended", "refresh"})
VERBS: Final = {"Create": "create", "Delete": "delete"}
SECRET: Final = tuple(row.record for row in KINDS if row.secret and row.record is not None)
_ROWS: Final = {row.record: row for row in KINDS if row.record is not None}
_WITHOUT_WORLD: Final = (
    *(Build, BuildRequest, DaemonPause, LogKey, MacOwner, NetworkAddress, NodeRequest, Pause, PoolNode, Token, Upload),
    *(AdoptionRule, MachineRegistration),
)
_TREE: Final = PathTree([row for row in KINDS if row.record in _WITHOUT_WORLD])


class ChangeRow(View, frozen=True, kw_only=True):
    """One change."""

    change: str  # create, change or delete
    kind: str
    name: str
    state: str | None  # that it has then
    fields: tuple[FieldRow, ...] | msgspec.UnsetType = msgspec.UNSET  # that change, where they are known


def keeps(vertex: Vertex) -> ChangeRow:
    """The row of a noderole that stays as it is."""
    return ChangeRow(change="keep", kind="noderole", name=vertex.name, state=str(vertex.record.state))


class DetailedRow(View, frozen=True, kw_only=True):
    """A change as a row of a table: the changes of its fields are one text."""

    row: ChangeRow
    fields: str

    @classmethod
    def of(cls, row: ChangeRow) -> DetailedRow:
        """A row of a table."""
        words = (each.made if row.change == "create" else each.words for each in row.fields or ())
        return cls(row=row, fields="; ".join(words))


class ChangesDocument(View, frozen=True, kw_only=True):
    """The changes of a command. The fields after ``explanations`` are left out where the command does not set them."""

    dry_run: bool
    changes: tuple[ChangeRow, ...]
    explanations: tuple[str, ...]
    kept: tuple[ChangeRow, ...] | msgspec.UnsetType = (
        msgspec.UNSET
    )  # noderoles that were asked for and were bound before
    warnings: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # of the documents that were imported
    problems: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # of the roles that were left out
    image: str | msgspec.UnsetType = msgspec.UNSET  # that is to be built
    request: int | msgspec.UnsetType = msgspec.UNSET  # its number


class OfWorld(Protocol):
    """The place of a path in the world (store.world.paths)."""

    @property
    def kind(self) -> type[Record]: ...
    @property
    def names(self) -> tuple[str, ...]: ...


Parse = Callable[[str], OfWorld | None]
#: By path and version: the JSON that is there before.
Before: TypeAlias = Mapping[tuple[str, int], Json]


def rows(changes: Iterable[Change], parse: Parse, before: Before | None = None) -> tuple[ChangeRow, ...]:
    """The changes as rows.

    Left out are changes that only keep order: checks, gates, fences, the structure, empty znodes, the making and
    deletion of claims. Entries of the journal are left out too.
    """
    return tuple(row for change in changes if (row := _row(change, parse, before or {})) is not None)


def concealed(row: ChangeRow, secret: Callable[[str], bool]) -> ChangeRow:
    """The row without the values of attributes for which ``secret`` is true."""
    if row.fields is msgspec.UNSET or row.kind not in differences.OF_ATTRIBUTES:
        return row
    fields = tuple(differences.concealed(each) if secret(each.field) else each for each in row.fields)
    return msgspec.structs.replace(row, fields=fields)


def _row(change: Change, parse: Parse, before: Before) -> ChangeRow | None:
    if isinstance(change, Check | Raise | Append):
        return None
    data = None if isinstance(change, Delete) else change.data
    named = _of_row(change.path) or _of_world(change, data, parse(change.path))
    if named is None:
        return None
    state = getattr(data, "state", None) if isinstance(data, Record) else None
    verb = VERBS.get(type(change).__name__, "change")
    return ChangeRow(
        change=verb,
        kind=named[0],
        name=named[1],
        state=None if state is None else str(state),
        fields=_fields(change, before) or msgspec.UNSET,
    )


def _fields(change: Change, before: Before) -> tuple[FieldRow, ...]:
    """The fields that differ. Of a created record: attributes, and the fields of a node or a deployment role; none of
    other records, and none of a secret.
    """
    if not isinstance(change, Create | Set) or isinstance(change.data, SECRET):
        return ()
    old = {} if isinstance(change, Create) else before.get((change.path, change.version))
    if not isinstance(old, dict):
        return ()
    if isinstance(change.data, Mapping):
        return differences.fields(old, change.data)
    if isinstance(change.data, Record) and (old or isinstance(change.data, Node | DeploymentRole)):
        new = {name: value for name, value in whole(change.data).items() if name != "unknown"}
        was: dict[str, Json] = {**_defaults(type(change.data)), **old}
        if not isinstance(change.data, NodeRole):
            return differences.fields(was, new, differences.QUIET)
        if was.get("check") == new.get("check"):
            return differences.fields(was, new, differences.QUIET | {"checked", "mended"})
        return (_check(new.get("check")), *differences.fields(was, new, differences.QUIET | _OF_CHECK))
    return ()


def _check(new: Json) -> FieldRow:
    """Whether a check was requested or withdrawn. The fields by which it is recorded are not shown."""
    return FieldRow(field="check", new="asked for") if new is not None else FieldRow(field="check", old="asked for")


@cache  # a kind of record is looked at for every change of one
def _defaults(kind: type[Record]) -> Mapping[str, Json]:
    """The default of each field, by its name in JSON. A record in JSON leaves out fields with their default."""
    found = {}
    parts = (kind, Rare) if kind is NodeRole else (kind,)
    for each in (field for part in parts for field in msgspec.structs.fields(part)):
        if each.default is not msgspec.NODEFAULT:
            found[each.encode_name] = msgspec.to_builtins(each.default)
        elif each.default_factory is not msgspec.NODEFAULT:
            found[each.encode_name] = each.default_factory()
    return {name: value for name, value in found.items() if name in keys_of(kind)}


def _of_world(change: Change, data: object, place: OfWorld | None) -> tuple[str, str] | None:
    """The kind and the name of the record at a path below /ocb."""
    if (place is None and data is None) or isinstance(data, Gate):
        return None
    if place is None:
        return _of_parts(change.path)
    if place.kind is Structure or (place.kind in (Fence, Claim) and isinstance(change, Create | Delete)):
        return None
    row = _ROWS[place.kind]
    return row.name, row.called(*place.names)


def _of_parts(path: str) -> tuple[str, str] | None:
    """The kind and the name of a record that a World does not have. None for a part of a record that has a change of
    its own.

    >>> _of_parts("/ocb/nodes/n1.example.com/noderoles/ntp-client/user")
    ('attributes', 'ntp-client@n1.example.com (user)')
    >>> _of_parts("/ocb/rollouts/lab/0000000003"), _of_parts("/ocb/rollouts/lab/0000000003/groups/canary")
    (('rollout', 'lab/0000000003'), None)
    """
    match path.split("/")[2:]:
        case ["nodes", fqdn, "noderoles", role, layer]:
            return "attributes", f"{paths.noderole_name(role, fqdn)} ({layer})"
        case ["rollouts", deployment, identity]:
            return "rollout", f"{deployment}/{identity}"
        case ["tasks", "runs", deployment, identity]:
            return "run of tasks", f"{deployment}/{identity}"
        case ["tasks", "releases" | "deployments", name]:
            return "task list", name
        case ["rollouts" | "tasks", *_]:
            return None
    return "attributes", path.removeprefix(paths.ROOT + "/")


def _of_row(path: str) -> tuple[str, str] | None:
    """The kind and the name of a pause of daemons, a token, or a record of an image or a pool.

    >>> _of_row("/nodepool/daemons/paused/builder/host1")
    ('pause of daemons', 'builder@host1')
    >>> _of_row("/nodepool/image/jammy/builds/0000000007/provider/west/images/0000000001")
    ('upload', 'jammy-0000000007 west 0000000001')
    """
    found = _TREE.find(path)
    return None if found is None else (found.kind.name, found.kind.called(*found.names))
