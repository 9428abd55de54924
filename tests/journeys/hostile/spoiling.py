"""Every way in which a record is spoiled here: tables that a person extends by a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from nodepool_ocb.model.records import keys_of

Spoil = Callable[[bytes], bytes]


def _with(key: str, value: str) -> Spoil:
    """The good record with another value, which is written as it is: it may be no JSON."""

    def spoil(good: bytes) -> bytes:
        rest = {name: each for name, each in json.loads(good or b"{}").items() if name != key}
        body = "".join(f",{json.dumps(name)}:{json.dumps(each)}" for name, each in rest.items() if name != "schema")
        return f'{{"schema":1{body},{json.dumps(key)}:{value}}}'.encode()

    return spoil


def _always(data: bytes) -> Spoil:
    return lambda _: data


#: What a whole record is replaced by.
WHOLE: Final[dict[str, Spoil]] = {
    "nothing": _always(b""),
    "no JSON": _always(b"{oops"),
    "null": _always(b"null"),
    "a number": _always(b"5"),
    "a text": _always(b'"text"'),
    "a list": _always(b"[]"),
    "an empty object": _always(b"{}"),
    "another kind": _always(b'{"schema":1,"colour":"red"}'),
    "a later schema": _always(b'{"schema":2,"state":"of a later version"}'),
    "a schema of text": _always(b'{"schema":"1"}'),
    "a negative schema": _always(b'{"schema":-1}'),
    "the first half": lambda good: good[: len(good) // 2],
    "a zero byte behind": lambda good: good + b"\0",
    "junk behind": lambda good: good + b"}",
    "a mark before": lambda good: b"\xef\xbb\xbf" + good,
    "zero bytes": _always(b"\0" * 100),
    "no UTF-8": _always(b'{"schema":1,"reason":"\xff\xfe"}'),
    "a lone surrogate": _always(b'{"schema":1,"reason":"\\ud800"}'),
    "control characters": _always(b"\x1b[2J\x1b]0;title\x07\x9b31m"),
    "a hundred levels": lambda good: _with("later", "[" * 100 + "]" * 100)(good),
    "three hundred levels": lambda good: _with("later", "[" * 300 + "]" * 300)(good),
    "a hundred thousand levels": _always(b"[" * 100_000),
    "200 KB more": lambda good: _with("later", json.dumps("x" * 200_000))(good),
    "300 KB more": lambda good: _with("later", json.dumps("x" * 300_000))(good),
    "almost a mebibyte": _always(b"x" * 1_000_000),
    "10,000 keys": lambda good: _with("later", json.dumps({str(n): n for n in range(10_000)}))(good),
    "a key unknown": lambda good: _with("unknown", '{"a":1}')(good),
}

#: What a single value is replaced by.
VALUES: Final[dict[str, str]] = {
    "-1": "-1",
    "10^30": "1" + "0" * 30,
    "1e308": "1e308",
    "1e999": "1e999",
    "NaN": "NaN",
    "null": "null",
    "true": "true",
    "empty text": '""',
    "control characters": '"\\u001b[2J\\u0000\\r\\n"',
    "two words": '"two words"',
    "role@node": '"A@B"',
    "a path": '"../../cluster"',
    "other letters": '"r\\u00f4le\\u202e"',
    "100 KB": json.dumps("x" * 100_000),
    "an empty list": "[]",
    "a list": '["a","a",""]',
    "an empty object": "{}",
    "an object": '{"":{"a":[1]}}',
}

#: What can be no name; ZooKeeper itself refuses control characters in a path.
NAMES: Final = (
    "A@B",
    "@",
    "two words",
    "Base",
    "rôle",
    "x" * 64,
    "x" * 300,
    "-begins",
    ".hidden",
    "base*",
    "%00",
    "$(id)",
    "a,b",
    "\u202eesab",
)


def every(fields: tuple[str, ...]) -> Iterator[tuple[str, Spoil]]:
    """Every spoiling of a record with these fields, by a name for people."""
    yield from WHOLE.items()
    for field in fields:
        for name, value in VALUES.items():
            yield f"{field}: {name}", _with(field, value)


def fields(kind: Any) -> tuple[str, ...]:
    """Those of a record that are in its JSON."""
    return keys_of(kind)
