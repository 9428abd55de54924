"""JSON values as YAML that ``plainyaml`` reads as the very same: in their order, without anchors, line for line to compare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import yaml

from nodepool_ocb.model.records import Json


class _WrittenDumper(yaml.CSafeDumper):
    """PyYAML's, for readers of YAML 1.2."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: _WrittenDumper, text: str) -> yaml.ScalarNode:
    """Lines stay lines. Text that a reader of YAML 1.2 takes for a number is quoted, though PyYAML takes it for text."""
    style = "|" if "\n" in text else "'" if text[:1] in "0123456789.+-" else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_WrittenDumper.add_representer(str, _text)


#: Texts that no reader of YAML takes for anything else, wherever they stand; the words that some do are apart.
_PLAIN: Final = re.compile(r"[a-z][a-z0-9_.@/-]{0,99}").fullmatch
_WORDS: Final = frozenset({"y", "yes", "n", "no", "on", "off", "true", "false", "null"})
WIDTH: Final = 10_000  # letters of a line
LONGEST_KEY: Final = 100  # PyYAML writes a longer one in another way, and one with a line end, too
_LINE_ENDS: Final = re.compile("[\r\x85\u2028\u2029]").search  # beside the line feed
#: PyYAML ends a document so behind a text with empty lines at its end. ``export`` writes on behind it.
_END: Final = "...\n"
SHORT: Final = WIDTH // 4  # a text of fewer is never folded, at any depth that is read


class _Unlike(Exception):
    """A value that is left to PyYAML, with all around it."""


def block(value: dict[str, Json], indent: int = 0) -> str:
    """A mapping as a part of a document, as ``text`` writes it, behind so many blanks. PyYAML needs 20 times as long."""
    try:
        return "".join(f"{line}\n" for line in _mapping(value, " " * indent))
    except _Unlike:
        lines = text(value, width=WIDTH - indent).split("\n")[:-1]
        return "".join(f"{' ' * indent}{line}\n" if line else "\n" for line in lines)


def _mapping(value: dict[str, Json], pad: str) -> Iterator[str]:
    for key, each in value.items():
        if len(key) > LONGEST_KEY or _LINE_ENDS(key):
            raise _Unlike
        name = _scalar(key)
        if isinstance(each, dict) and each:
            yield f"{pad}{name}:"
            yield from _mapping(each, f"{pad}  ")
        elif isinstance(each, list) and each:
            yield f"{pad}{name}:"
            yield from _sequence(each, pad)
        else:
            yield f"{pad}{name}: {_scalar(each)}"


def _sequence(value: list[Json], pad: str) -> Iterator[str]:
    for each in value:
        if isinstance(each, dict | list) and each:
            lines = _mapping(each, f"{pad}  ") if isinstance(each, dict) else _sequence(each, f"{pad}  ")
            yield f"{pad}- {next(lines)[len(pad) + 2 :]}"
            yield from lines
        else:
            yield f"{pad}- {_scalar(each)}"


def _scalar(value: Json) -> str:
    if isinstance(value, str):
        return value if _PLAIN(value) and value not in _WORDS else _quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value)
    if value in ({}, []):
        return "{}" if value == {} else "[]"
    raise _Unlike


@lru_cache(maxsize=4096)
def _quoted(value: str) -> str:
    """Raises _Unlike for a text of several lines, and for a long one."""
    if "\n" in value or len(value) > SHORT:
        raise _Unlike
    return text([value])[2:-1]


def text(value: Json, exact: bool = False, width: int = WIDTH) -> str:
    r"""The value as a document; ``exact``: in ASCII, with all else escaped.

    >>> print(text({"version": "1e3", "script": "a\nb\n", "on": ["yes", True]}), end="")
    version: '1e3'
    script: |
      a
      b
    'on':
    - 'yes'
    - true
    """
    made = str(yaml.dump(value, Dumper=_WrittenDumper, sort_keys=False, allow_unicode=not exact, width=width))
    return made.removesuffix(_END) if made.endswith(f"\n{_END}") else made
