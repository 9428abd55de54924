"""Attributes: JSON objects that are merged in layers, read and written at places like ``a/b/0``, and compared.

Merging changes no argument, and shares the parts that it need not copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.model.records import Json
from nodepool_ocb.model.secrecy import KEY, is_secret

MISSING: Final[Any] = object()


def merge(below: Mapping[str, Json], above: Mapping[str, Json]) -> dict[str, Json]:
    """Both, key by key. If both have a value, that of ``above`` wins. Lists replace lists, and a secret is never merged.

    >>> merge({"a": {"b": 1, "c": [1, 2]}}, {"a": {"c": [3]}})
    {'a': {'b': 1, 'c': [3]}}
    """
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, dict) and KEY not in before and KEY not in value
        merged[key] = merge(before, value) if both else value  # type: ignore[arg-type]
    return merged


def wall(sent: Mapping[str, Json], returned: Mapping[str, Json]) -> dict[str, Json]:
    """The values of ``returned`` that ``sent`` does not have or has otherwise (seed 000: the deep diff on the noderole's wall).

    >>> wall({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2, "d": "OK"}})
    {'b': {'d': 'OK'}}
    """
    added: dict[str, Json] = {}
    for key, value in returned.items():
        before = sent.get(key, MISSING)
        if isinstance(before, dict) and isinstance(value, dict):
            below = wall(before, value)
            if below:
                added[key] = below
        elif not _same(before, value):
            added[key] = value
    return added


def read(blob: Json, path: str) -> Json:
    """The value at a path; KeyError if there is none.

    >>> read({"ntp": {"servers": ["10.0.0.1"]}}, "ntp/servers/0")
    '10.0.0.1'
    """
    for step in path.split("/"):
        if isinstance(blob, dict) and step in blob:
            blob = blob[step]
        elif isinstance(blob, list) and step.isdecimal() and int(step) < len(blob):
            blob = blob[int(step)]
        else:
            raise KeyError(path)
    return blob


def at(blob: Json, path: str, otherwise: Json = MISSING) -> Json:
    """The value at a path; ``otherwise`` if there is none."""
    try:
        return read(blob, path)
    except KeyError:
        return otherwise


def says(blob: Json, steps: Sequence[str]) -> bool:
    """Whether there is a value at a place that is reached through maps alone.

    >>> says({"a": {"b/c": None}}, ["a", "b/c"]), says({"a": ["x"]}, ["a", "0"])
    (True, False)
    """
    for step in steps:
        if not isinstance(blob, dict) or step not in blob:
            return False
        blob = blob[step]
    return True


def leaves(blob: Mapping[str, Json], above: str = "") -> Iterator[tuple[str, Json]]:
    """The paths and values of all that are no maps, or empty ones.

    >>> list(leaves({"a": {"b": [1], "c": {}}}))
    [('a/b', [1]), ('a/c', {})]
    """
    for step, value in blob.items():
        if isinstance(value, dict) and value and KEY not in value:
            yield from leaves(value, f"{above}{step}/")
        else:
            yield f"{above}{step}", value


def differ(one: Json, other: Json) -> bool:
    """Whether two are not the same JSON, or one is MISSING: true is not 1, and 1 is not 1.0.

    >>> differ([1], [True]), differ({"a": 1, "b": 2}, {"b": 2, "a": 1}), differ(MISSING, None)
    (True, False, True)
    """
    if one is MISSING or other is MISSING:
        return one is not other
    return msgspec.json.encode(one, order="sorted") != msgspec.json.encode(other, order="sorted")


def compared(one: Any, other: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The places where two values differ, as (keys, value of one, value of the other); maps are opened; MISSING: no value there.

    >>> list(compared({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}))
    [(('a', 'c'), 2, 3)]
    """
    if is_secret(one) or is_secret(other):
        if differ(one, other):
            yield above, one, other
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted(one.keys() | other.keys()):
            yield from compared(one.get(key, MISSING), other.get(key, MISSING), (*above, key))
    elif isinstance(one, Mapping) and one and other is MISSING:
        yield from compared(one, {}, above)
    elif isinstance(other, Mapping) and other and one is MISSING:
        yield from compared({}, other, above)
    elif differ(one, other):
        yield above, one, other


def write(blob: Mapping[str, Json], path: str, value: Json) -> dict[str, Json]:
    """The same with ``value`` at a path; missing objects on the way are made.

    >>> write({"a": {"b": 1}}, "a/c/d", True)
    {'a': {'b': 1, 'c': {'d': True}}}
    """
    step, _, rest = path.partition("/")
    if not rest:
        return {**blob, step: value}
    below = blob.get(step)
    return {**blob, step: write(below if isinstance(below, dict) and KEY not in below else {}, rest, value)}


def same(one: Json, other: Json) -> bool:
    """Whether both are the same JSON, in any order of the keys of maps."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _same(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)  # True is not 1, and 1 is not 1.0
