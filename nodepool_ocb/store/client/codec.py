"""Bytes in ZooKeeper to records and back; nowhere else.

A znode is one line of compact JSON with ``"schema": 1`` first and defaults left out. A record in ZooKeeper has ``"tx"``
second: the signature of the transaction that wrote it (``outcome``). It is no part of the record. Keys that this
version does not know are kept in ``record.unknown`` and written back where they were: at the top.

The rare fields of a noderole are a value of their own here, and keys among its others in JSON.

Records of ``WHOLE`` kinds are Nodepool's, too. Each key of them is written, also a default. A key with null is read as
its default.

Decoding raises Invalid, with the path, in these cases: a later schema; JSON of another kind; a value out of its range
(ranges); too many bytes or levels. Encoding refuses a record that could not be read again.
"""

from __future__ import annotations

import functools
import re
import secrets
from sys import intern
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from nodepool_ocb.errors import Invalid, Spoiled, Unreadable
from nodepool_ocb.model.limits import BLOB_BYTES, RECORD_BYTES
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode
from nodepool_ocb.model.records import USUAL, Claim, Fence, Json, NodeRole, Rare, Record, Run, State, keys_of, shared
from nodepool_ocb.store.client.frames import Znode

T = TypeVar("T", bound=Record)
S = TypeVar("S", bound=msgspec.Struct)

#: The kinds of records that are written most, and the part of one of them.
OF_EVERY_RUN: Final[frozenset[type[msgspec.Struct]]] = frozenset({Claim, Fence, NodeRole, Rare, Run})

DEPTH: Final = 200  # of attributes, which are merged by functions that call themselves, and of records
SHALLOW_BYTES: Final = 2 * DEPTH  # JSON of fewer is not deeper: each level has a bracket at either end
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)  # or a text, as a whole

WHOLE: Final = frozenset({NodeRequest, PoolComponent, PoolNode})

_SCHEMA: Final = b'{"schema":1'
_NONE_UNKNOWN: Final = b'{"schema":1,"unknown":null'  # no key of a record: the field is for other keys
_SIGNED: Final = b'{"schema":1,"tx":"'
_SIGNATURE_BYTES: Final = 12

_encode_json = msgspec.json.Encoder().encode
_force = msgspec.structs.force_setattr


def _encode(value: Record | Json) -> bytes:
    if type(value) is NodeRole:
        return _encode_json(value) if value.rare is USUAL else _encode_flat(value)
    data = _encode_json(value)
    if type(value) in WHOLE and data.startswith(_NONE_UNKNOWN):
        return _SCHEMA + data[len(_NONE_UNKNOWN) :]
    return data


def _encode_flat(record: NodeRole) -> bytes:
    """JSON in which the rare fields stand behind the others.

    >>> from nodepool_ocb.model.records import State
    >>> _encode_flat(NodeRole.of(state=State.ERROR, since=0.0, reason="no disk"))
    b'{"schema":1,"state":"ERROR","since":0.0,"reason":"no disk"}'
    """
    data = _encode_json(msgspec.structs.replace(record, rare=USUAL))
    keys = _encode_json(record.rare)
    return data if keys == b"{}" else b"%b,%b" % (data[:-1], keys[1:])


def signature() -> str:
    """A text that no other transaction has."""
    return secrets.token_urlsafe(_SIGNATURE_BYTES * 3 // 4)


def signed(data: bytes, by: str) -> bytes:
    """The data of a record, with the signature of the transaction that writes it.

    >>> signed(b'{"schema":1,"by":"root"}', "AbCdEfGhIjKl")
    b'{"schema":1,"tx":"AbCdEfGhIjKl","by":"root"}'
    """
    return b"".join((_SIGNED, by.encode(), b'"', data[len(_SCHEMA) :]))


def unsigned(data: bytes) -> bytes:
    """The data without the signature that ``signed`` put there.

    >>> unsigned(signed(b'{"schema":1,"by":"root"}', "AbCdEfGhIjKl"))
    b'{"schema":1,"by":"root"}'
    """
    end = len(_SIGNED) + _SIGNATURE_BYTES
    return _SCHEMA + data[end + 1 :] if data.startswith(_SIGNED) and data[end : end + 1] == b'"' else data


def encode(value: Record | Json) -> bytes:
    """The znode's data for a record, for JSON, or for None (an empty znode).

    >>> from nodepool_ocb.model.records import Deployment
    >>> encode(Deployment(by="root", unknown={"colour": "red"}))
    b'{"schema":1,"by":"root","colour":"red"}'
    """
    if value is None:
        return b""
    try:
        data = _encode(value)
        if len(data) >= SHALLOW_BYTES and _deeper(data, DEPTH):
            raise Invalid(f"deeper than {DEPTH} levels, and could not be read again; make it flatter")
        if not isinstance(value, Record):
            return data
        _judge(type(value)).decode(data)  # a reader would quarantine a value out of its range
        if type(value) is NodeRole and value.rare is not USUAL:
            _judge(Rare).decode(data)
        if value.unknown is None:
            return data
        known = msgspec.json.decode(_encode(msgspec.structs.replace(value, unknown=None)))
        known.pop("unknown", None)
        return _encode({**known, **_extra(value, known)})
    except msgspec.ValidationError as error:
        raise Invalid(f"no {type(value).__name__} can be written so: {error}; correct that value") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"this cannot be written as JSON: {error}; correct that value") from error


def decode(kind: type[T], znode: Znode) -> T:
    """The record in ``znode``; raises Invalid naming its path."""
    try:
        data = unsigned(znode.data)
        if len(data) >= SHALLOW_BYTES:
            _bounded(data, RECORD_BYTES)
        return _record(kind, data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"{znode.path}: not a {kind.__name__} of schema 1: {error}", znode.path) from error


def _record(kind: type[T], data: bytes) -> T:
    """Raises DecodeError, UnicodeError or RecursionError."""
    record: T = _read(kind, data)
    if isinstance(record, NodeRole):
        _share(record)
    if _encode(record) != data or record.unknown is not None:
        record = _looked_closer(kind, record, data)
    return record


def state(data: bytes) -> State:
    """The state of a noderole, from its data as they are stored, all of which are checked. Raises where ``decode`` refuses them:
    DecodeError, UnicodeError or RecursionError.

    >>> from nodepool_ocb.model.records import State
    >>> state(signed(encode(NodeRole.of(state=State.ERROR, since=0.0, reason="no disk")), "AbCdEfGhIjKl"))
    <State.ERROR: 'ERROR'>
    """
    found: State = flat(data).state
    return found


def flat(data: bytes) -> Any:
    """A noderole from its data as they are stored: its keys in JSON as attributes, None for those that are not there.

    All are checked, and it raises as ``state``. It is no record: for very many of which few are made records.
    """
    data = unsigned(data)
    if len(data) >= SHALLOW_BYTES:
        _bounded(data, RECORD_BYTES)
    try:
        return _flat(strict=True).decode(data)
    except msgspec.ValidationError:  # perhaps for an unknown key alone: its value counts, too
        _record(NodeRole, data)
        return _flat(strict=False).decode(data)


@functools.cache
def _flat(strict: bool) -> msgspec.json.Decoder[Any]:
    """Of a noderole with its rare fields among the others, as it stands in JSON. ``strict``: it refuses an unknown key."""
    hints = {**get_type_hints(NodeRole, include_extras=True), **get_type_hints(Rare, include_extras=True)}
    if strict:
        hints = {name: _without_unknown(hint) for name, hint in hints.items()}
    names = [*(each for each in NodeRole.__struct_fields__ if each not in ("rare", "unknown")), *Rare.__struct_fields__]
    required = {each.name for each in msgspec.structs.fields(NodeRole) if each.required}
    fields = [(name, hints[name]) if name in required else (name, hints[name], None) for name in names]
    fields.sort(key=len)
    kind = msgspec.defstruct("FlatNodeRole", fields, tag_field="schema", tag=1, gc=False, forbid_unknown_fields=strict)
    return msgspec.json.Decoder(kind)


def _without_unknown(hint: Any) -> Any:
    """The same type, with parts that refuse an unknown key."""
    parts = [each for each in get_args(hint) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    for each in parts:
        hint = msgspec.defstruct(each.__name__, [], bases=(each,), forbid_unknown_fields=True) | None
    return hint


def _read(kind: type[T], data: bytes) -> T:
    """Raises DecodeError."""
    try:
        record: T = _decoder(kind).decode(data)
    except msgspec.ValidationError:
        keys = msgspec.json.decode(data) if kind in WHOLE else None
        if not isinstance(keys, dict) or None not in keys.values():
            raise
        record = msgspec.convert({key: value for key, value in keys.items() if value is not None}, kind)
    return record


def attributes(znode: Znode | None) -> dict[str, Any]:
    """The attributes that a znode holds; none where it is absent or empty. Raises Spoiled, naming its path."""
    if znode is None or not znode.data:
        return {}
    try:
        _bounded(znode.data, BLOB_BYTES)
        return msgspec.json.decode(znode.data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Spoiled(f"{znode.path}: these are no attributes: {error}", znode.path) from error


def document(znode: Znode) -> dict[str, Any]:
    """The keys of a record, or the attributes, in a znode. Raises Spoiled, naming its path."""
    return attributes(msgspec.structs.replace(znode, data=unsigned(znode.data)))


def _bounded(data: bytes, most: int) -> None:
    """Raises DecodeError if the data are larger or deeper than a write may be."""
    if len(data) > most:
        raise msgspec.DecodeError(f"{len(data)} bytes are more than it may hold ({most})")
    if _deeper(data, DEPTH):
        raise msgspec.DecodeError(f"deeper than {DEPTH} levels")


def _deeper(data: bytes, levels: int) -> bool:
    """Whether JSON has more levels: of brackets that are not within text.

    >>> _deeper(b'{"a[[[": [1], "b": [2]}', 2), _deeper(b'{"a": [[1]]}', 2)
    (False, True)
    """
    if data.count(b"{") + data.count(b"[") <= levels:
        return False
    depth = deepest = 0
    for bracket in _BRACKETS.findall(data):
        depth += (bracket in b"{[") - (bracket in b"}]")
        deepest = max(deepest, depth)
    return deepest > levels


@functools.cache
def _decoder(kind: type[S]) -> msgspec.json.Decoder[S]:
    return msgspec.json.Decoder(kind)


@functools.cache
def _judge(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    """The decoder that refuses a record that cannot be read again.

    For records that every run writes it checks numbers alone: the names in them were read before or are the daemon's
    own.
    """
    if kind not in OF_EVERY_RUN:
        return _decoder(kind)
    numbers = [
        (name, hint)
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if name in kind.__struct_fields__ and not {int, float}.isdisjoint(_bare(hint))
    ]
    return msgspec.json.Decoder(msgspec.defstruct(kind.__name__, [(name, hint, 0) for name, hint in numbers]))


def _bare(hint: Any) -> set[Any]:
    """The types that a hint allows, without annotations.

    >>> from nodepool_ocb.model.ranges import Count
    >>> sorted(each.__name__ for each in _bare(Count | None))
    ['NoneType', 'int']
    """
    if get_origin(hint) is Annotated:
        return {hint.__origin__}
    return {bare for each in get_args(hint) for bare in _bare(each)} or {hint}


def fields(kind: type[Record]) -> tuple[str, ...]:
    """The keys of a kind of records, in the order in which they are written."""
    return keys_of(kind)


@functools.cache
def _known(kind: type[Record]) -> frozenset[str]:
    return frozenset(keys_of(kind)) | {"schema", "tx"}


def _looked_closer(kind: type[T], record: T, data: bytes) -> T:
    """The record with its rare fields, or with its unknown keys. Raises DecodeError.

    The second is the slow way, for records with keys of people or of other versions.
    """
    if isinstance(record, NodeRole):
        _force(record, "rare", shared(_decoder(Rare).decode(data)))
        if _encode(record) == data and record.unknown is None:
            return record
    keys: dict[str, Any] = msgspec.json.decode(data)
    unknown = {key: value for key, value in keys.items() if key not in _known(kind)}
    if not unknown and record.unknown is None:
        return record
    return msgspec.structs.replace(record, unknown=unknown or None)


def _share(record: NodeRole) -> None:
    """Hold once what a hundred thousand noderoles have in common; the record is ours alone so far."""
    if record.by is not None:
        _force(record, "by", intern(record.by))
    if record.deployment != "system":
        _force(record, "deployment", intern(record.deployment))
    if record.rare is not USUAL:  # a key of that name, which is none of ours
        _force(record, "rare", USUAL)


def _extra(record: Record, known: dict[str, Any]) -> dict[str, Json]:
    return {key: value for key, value in (record.unknown or {}).items() if key not in known}
