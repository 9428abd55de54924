"""The fields of a record, or the attributes, that a change sets: leaf by leaf, before and after.

A secret (``{"$secret": ...}``) is never shown, and a long value is shortened: these texts may be printed and kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from nodepool_ocb.model.records import Json
from nodepool_ocb.views.times import shown as local
from nodepool_ocb.views.view import View

SECRET: Final = "(secret)"
MARK: Final = "$secret"  # the one key of a mapping that stands for a secret
OF_ATTRIBUTES: Final = frozenset({"attributes", "deployment role"})  # the kinds of records with attributes as fields
LONGEST: Final = 200  # characters of a value in JSON
QUIET: Final = frozenset({"schema", "since", "by", "hooks", "changed", "generation", "epoch"})  # of every change

#: Fields of records that are moments: people are shown the time.
MOMENTS: Final = frozenset(
    {
        *("not_before", "state_time", "created_time", "driver_data/since", "driver_data/not_before"),
        *(f"{each}/{end}" for each in ("hold", "mark", "pause") for end in ("since", "until")),
    }
)


class FieldRow(View, frozen=True, kw_only=True):
    """One field that changes: the path to it, and its values; one that is left out was not, or will not be, there."""

    field: str
    old: Json | msgspec.UnsetType = msgspec.UNSET
    new: Json | msgspec.UnsetType = msgspec.UNSET

    @property
    def words(self) -> str:
        """The row as a line of text.

        >>> FieldRow(field="ntp/servers", new=["a"]).words
        'ntp/servers: - -> ["a"]'
        """
        return f"{self.field}: {_words(self.old, self.field)} -> {_words(self.new, self.field)}"

    @property
    def made(self) -> str:
        """The field of a created record: its name and its value.

        >>> FieldRow(field="ntp/servers", new=["a"]).made
        'ntp/servers: ["a"]'
        """
        return f"{self.field}: {_words(self.new, self.field)}"


def fields(old: Mapping[str, Json], new: Mapping[str, Json], but: frozenset[str] = frozenset()) -> tuple[FieldRow, ...]:
    """The leaves that differ, in order; those below a key of ``but`` are left out.

    >>> [row.words for row in fields({"a": {"b": 1}, "c": "x"}, {"a": {"b": 2}, "d": None})]
    ['a/b: 1 -> 2', 'c: x -> -', 'd: - -> null']
    >>> [row.words for row in fields({"hold": None, "a": None}, {"hold": {"by": "ann"}})]
    ['a: null -> -', 'hold/by: - -> ann']
    >>> [row.words for row in fields({"key": {"$secret": "enc:1"}}, {"key": {"$secret": "enc:2"}})]
    ['key: (secret) -> (secret)']
    >>> [row.words for row in fields({"key": "plain", "new": {"$secret": "env:A"}}, {"key": {"$secret": "env:A"}})]
    ['key: (secret) -> (secret)', 'new: (secret) -> -']
    """
    was = {path: value for key in sorted(old.keys() - but) for path, value in _leaves(key, old[key])}
    will = {path: value for key in sorted(new.keys() - but) for path, value in _leaves(key, new[key])}
    pairs = ((path, was.get(path, msgspec.UNSET), will.get(path, msgspec.UNSET)) for path in sorted({*was, *will}))
    differing = ((path, one, other) for path, one, other in pairs if not _same(one, other))
    return tuple(
        _row(path, one, other) for path, one, other in differing if not _unfolds(path, one, other, {*was, *will})
    )


def concealed(row: FieldRow) -> FieldRow:
    """The same without its values, as where its field is declared as secret.

    >>> concealed(FieldRow(field="db/password", old="x")).words
    'db/password: (secret) -> -'
    """
    old, new = (each if each is msgspec.UNSET or each is None else SECRET for each in (row.old, row.new))
    return FieldRow(field=row.field, old=old, new=new)


def _unfolds(path: str, old: Json, new: Json, known: Collection[str]) -> bool:
    """Whether the field is null on one side and has leaves of its own on the other. The leaves are rows themselves."""
    null = (old is None and new is msgspec.UNSET) or (new is None and old is msgspec.UNSET)
    return null and any(each.startswith(f"{path}/") for each in known)


def _row(path: str, old: Json, new: Json) -> FieldRow:
    """A text that becomes a secret, or was one, is as secret as that."""
    if _is_secret(old) or _is_secret(new):
        old, new = (each if each is msgspec.UNSET else SECRET for each in (old, new))
    return FieldRow(field=path, old=shown(old), new=shown(new))


def _leaves(path: str, value: Json) -> Iterator[tuple[str, Json]]:
    """All that has no keys of its own, or is a secret; lists are whole."""
    if isinstance(value, Mapping) and not _is_secret(value):
        for key in sorted(value):
            yield from _leaves(f"{path}/{key}", value[key])
    else:
        yield path, value


def _same(old: Json, new: Json) -> bool:
    """Equal as JSON: true is not 1."""
    if old is msgspec.UNSET or new is msgspec.UNSET:
        return old is new
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def shown(value: Json) -> Json:
    """A value as it may be shown: without secrets, and short.

    >>> shown([{"$secret": "enc:x"}]), shown("x" * 1000)[-20:]
    (['(secret)'], '... (1000 characters)')
    """
    if value is msgspec.UNSET:
        return value
    hidden = _hidden(value)
    text = hidden if isinstance(hidden, str) else json.dumps(hidden, ensure_ascii=False)
    return hidden if len(text) <= LONGEST else f"{text[: LONGEST - 30]}... ({len(text)} characters)"


def _is_secret(value: Json) -> bool:
    return isinstance(value, Mapping) and value.keys() == {MARK}


def _hidden(value: Json) -> Json:
    if isinstance(value, Mapping):
        return SECRET if _is_secret(value) else {key: _hidden(each) for key, each in value.items()}
    return [_hidden(each) for each in value] if isinstance(value, list | tuple) else value


def _words(value: Json, field: str) -> str:
    if value is msgspec.UNSET:
        return "-"
    if field in MOMENTS and isinstance(value, int | float) and value:
        return local(value)
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
