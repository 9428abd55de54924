"""The base of all views: a value that is shown to people, and its JSON.

Commands print views and HTTP pages may: their fields are the keys of JSON and YAML, in this order, and the columns of
tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from nodepool_ocb.model.records import Json, Record, keys_of
from nodepool_ocb.model.secrecy import hidden

R_co = TypeVar("R_co", bound=Record, covariant=True)


class View(msgspec.Struct, frozen=True):
    """A value that is shown to people.

    A field called ``record`` (a record from ZooKeeper, or another struct) or ``row`` (another view) is replaced by all
    its fields. A later field with the name of one of these replaces its value. A field that is ``msgspec.UNSET`` is
    left out.
    """


class Whole(View, Generic[R_co], frozen=True):
    """A record with all its fields."""

    record: R_co


def plain(view: View) -> dict[str, Json]:
    """The view as JSON.

    >>> from nodepool_ocb.model.images import Pause
    >>> plain(Whole(Pause(by="root", at=1.0, unknown={"later": True})))
    {'later': True, 'by': 'root', 'reason': None, 'at': 1.0, 'until': None}
    """
    made: dict[str, Json] = {}
    for name, value in _fields(view):
        if name == "record":
            made |= whole(value)
        elif name == "row":
            made |= plain(value)
        else:
            made[name] = _json(value)
    return made


def public(view: View) -> dict[str, Json]:
    """The view as JSON without any secret, for output that leaves a process."""
    made: dict[str, Json] = hidden(plain(view))
    return made


@cache
def is_flat(kind: type[View]) -> bool:
    """Whether all fields are single values, which hold no secret: then the encoded struct equals its ``public``.

    >>> class Lamp(View, frozen=True):
    ...     name: str
    ...     since: float | None = None
    >>> is_flat(Lamp), is_flat(Whole)
    (True, False)
    """
    return all(field.name not in ("record", "row") and _single(field.type) for field in msgspec.structs.fields(kind))


def _single(kind: Any) -> bool:
    if isinstance(kind, UnionType) or get_origin(kind) in (Union, Annotated):
        return all(_single(each) for each in get_args(kind)[: 1 if get_origin(kind) is Annotated else None])
    return isinstance(kind, type) and issubclass(kind, str | int | float | NoneType | Enum)


def whole(record: msgspec.Struct) -> dict[str, Json]:
    """A record with all its fields, defaults too, and the unknown fields of a later version."""
    values = ((name, getattr(record, name)) for name in keys_of(type(record)))
    known = {name: msgspec.to_builtins(value) for name, value in values if value is not msgspec.UNSET}
    return {**(getattr(record, "unknown", None) or {}), **known}


def _fields(value: msgspec.Struct) -> Iterator[tuple[str, Json]]:
    pairs = ((name, getattr(value, name)) for name in value.__struct_fields__)
    return ((name, each) for name, each in pairs if each is not msgspec.UNSET)


def _json(value: Json) -> Json:
    if isinstance(value, View):
        return plain(value)
    if isinstance(value, tuple | list):
        return [_json(each) for each in value]
    return msgspec.to_builtins(value)
