"""Attributes on their way to a script and back: the files that read_attribute and write_attribute work with.

``tree`` has a line for each value: tab, path, tab, kind and value. Kinds: ``t`` text, ``j`` another JSON scalar, ``m``
map, ``l`` list. The value of a map or a list is its keys or indexes, as path segments. A text comes back as text, also
if it looks like another type. Pure.

>>> tree({"a": {"b/c": ["OK", 1e3]}})
b'\\t\\tma\\n\\ta\\tmb%2Fc\\n\\ta/b%2Fc\\tl0/1\\n\\ta/b%2Fc/0\\ttOK\\n\\ta/b%2Fc/1\\tj1000.0\\n'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.model.records import Json

EMPTY: Final = "%"  # the segment of the empty key
DEPTH: Final = 50  # of JSON that comes from a machine

_ODD_IN_KEY: Final = re.compile(r"[%/\x00-\x1f\x7f]")
_ODD_IN_TEXT: Final = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")
_HEAD: Final = re.compile(rb"(?P<kind>[tj]) (?P<size>[0-9]{1,9}) (?P<path>[^\n]+)\n")
_HEX: Final = re.compile(r"%([0-9A-Fa-f]{2})")


def segment(key: str) -> str:
    """A key as part of a path.

    >>> segment("a/b"), segment("100%"), segment("")
    ('a%2Fb', '100%25', '%')
    """
    return _ODD_IN_KEY.sub(lambda odd: f"%{ord(odd[0]):02X}", key) or EMPTY


def keys(path: str) -> list[str]:
    """The keys of a path: the inverse of ``segment`` for each part.

    >>> keys("a%2Fb/%/0")
    ['a/b', '', '0']
    """
    return ["" if part == EMPTY else _HEX.sub(lambda odd: chr(int(odd[1], 16)), part) for part in path.split("/")]


def tree(attributes: Mapping[str, Json]) -> bytes:
    """The file ``tree`` of these attributes."""
    return "".join(_lines("", dict(attributes))).encode("utf-8", "surrogatepass")


def _lines(path: str, value: Json) -> Iterator[str]:
    below = f"{path}/" if path else ""
    if isinstance(value, dict):
        parts = {segment(key): held for key, held in value.items()}
        yield f"\t{path}\tm{'/'.join(parts)}\n"
        for part, held in parts.items():
            yield from _lines(below + part, held)
    elif isinstance(value, list | tuple):
        yield f"\t{path}\tl{'/'.join(map(str, range(len(value))))}\n"
        for index, held in enumerate(value):
            yield from _lines(f"{below}{index}", held)
    elif isinstance(value, str):
        yield f"\t{path}\tt{_escaped(value)}\n"
    else:
        yield f"\t{path}\tj{json.dumps(value)}\n"


def _escaped(text: str) -> str:
    """For ``printf %b`` of any shell: octal escapes, so that the line is ASCII and holds no tab."""
    return _ODD_IN_TEXT.sub(lambda odd: b"\\0%03o" % ord(odd[0]), text.encode("utf-8", "surrogatepass")).decode()


def apply(attributes: dict[str, Json], written: bytes) -> dict[str, Json]:
    """The attributes with the values that a script wrote; a copy if it wrote any.

    Raises ValueError, with a sentence for people, if the writes make no sense.
    """
    if not written:
        return attributes
    changed: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(attributes))
    for kind, path, text in _writes(written):
        _put(changed, path, _value(kind, path, text))
    return changed


def returned(changed: Mapping[str, Json], written: bytes) -> dict[str, Json]:
    r"""The values that a script wrote, alone, out of ``changed``: as ``apply`` left it with its writes. A list is returned whole.

    >>> sent = {"a": {"b": 1}, "l": ["x"]}
    >>> returned(apply(sent, b"t 1 a/c\ny\nt 1 l/1\nz\n"), b"t 1 a/c\ny\nt 1 l/1\nz\n")
    {'a': {'c': 'y'}, 'l': ['x', 'z']}
    """
    found: dict[str, Json] = {}
    for _, path, _ in _writes(written):
        *way, last = _place(changed, keys(path))
        holder: Any = found
        seen: Any = changed
        for key in way:
            holder, seen = holder.setdefault(key, {}), seen[key]
        holder[last] = seen[last]
    return found


def _place(changed: Mapping[str, Json], steps: list[str]) -> list[str]:
    """The part of the steps that leads through maps to an existing value."""
    seen: Any = changed
    for at, key in enumerate(steps):
        if key not in seen:  # a later write replaced a map above it
            return steps[:at]
        seen = seen[key]
        if not isinstance(seen, dict):
            return steps[: at + 1]
    return steps


def _writes(written: bytes) -> Iterator[tuple[str, str, bytes]]:
    index = 0
    while index < len(written):
        head = _HEAD.match(written, index)
        index = head.end() + int(head["size"]) if head else 0
        if head is None or written[index : index + 1] != b"\n":
            raise ValueError("the output of write_attribute is damaged")
        yield head["kind"].decode(), head["path"].decode("utf-8", "replace"), written[head.end() : index]
        index += 1


def _value(kind: str, path: str, text: bytes) -> Json:
    try:
        if kind == "t":
            return text.decode()
        value = msgspec.json.decode(text)
    except RecursionError:
        raise ValueError(f"write_attribute {path}: deeper than {DEPTH} levels") from None
    except (UnicodeDecodeError, msgspec.DecodeError) as wrong:
        what = "UTF-8 text" if kind == "t" else "JSON"
        raise ValueError(f"write_attribute {path}: not {what}: {wrong}") from wrong
    if _too_deep(value):
        raise ValueError(f"write_attribute {path}: deeper than {DEPTH} levels")
    return value


def _too_deep(value: Json) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [held for one in level for held in _held(one)]
    return bool(level)


def _held(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _put(root: dict[str, Json], path: str, value: Json) -> None:
    *way, last = keys(path)
    if len(way) >= DEPTH:
        raise ValueError(f"write_attribute {path}: deeper than {DEPTH} levels")
    holder: Any = root
    for key in way:
        holder = _step(holder, key, path)
    if isinstance(holder, dict):
        holder[last] = value
    elif _index(holder, last, path) == len(holder):
        holder.append(value)
    else:
        holder[int(last)] = value


def _step(holder: Any, key: str, path: str) -> Any:
    """One level down; makes a map where there is nothing, and where a scalar stood."""
    if isinstance(holder, dict):
        if not isinstance(holder.get(key), dict | list):
            holder[key] = {}
        return holder[key]
    index = _index(holder, key, path)
    if index == len(holder):
        holder.append({})
    elif not isinstance(holder[index], dict | list):
        holder[index] = {}
    return holder[index]


def _index(holder: list[Json], key: str, path: str) -> int:
    if not (key.isascii() and key.isdigit() and int(key) <= len(holder)):
        raise ValueError(f"write_attribute {path}: {key!r} is no index in a list of {len(holder)}, nor the next")
    return int(key)
