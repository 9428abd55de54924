"""The simple part of YAML, read line by line: some times faster than the parser, which makes an object of each word.

Simple are blocks of mappings and lists in ASCII, as ``export`` writes them: scalars on one line, no tags, anchors or escapes, and
no flow collections except ``[]`` and ``{}``. ``read`` gives the value and the lines that plainyaml gives, or None: then the text
has something else, perhaps a fault, and plainyaml must read it (decision 167).
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from nodepool_ocb.documents.scalars import OddNumber, plain
from nodepool_ocb.model.records import Json

Key: TypeAlias = tuple[str | int, ...]

LONGEST: Final = 1000  # characters of a line: the parser takes no longer keys
_OTHER: Final = re.compile(r"[^\n -~]")
_WORD: Final = r"[\w./@+=,~%-]+(?::[\w./@+=,~%-]+)*"
_LINE: Final = re.compile(
    rf"""(\ *)
    (-\ )?
    (?:([A-Za-z0-9_./][\w./@+-]*):(?:\ |$)|(?!$))
    (?: ((?=[A-Za-z0-9_./]){_WORD}(?:\ {_WORD})*)
      | '([^']*)'
      | "([^"\\]*)"
      | (\[\]|{{}})
    )?""",
    re.ASCII | re.VERBOSE,
)
_BLANK: Final = re.compile(r"\ *(?:\#.*)?", re.ASCII)
_OPEN: Final = object()  # in place of a value that the lines below may have


class _Unusual(Exception):
    """The text has more than this module reads."""


#: A line, or the rest of one behind the ``-`` of an item: its indent, its key (None for an item), and its value.
_Entry: TypeAlias = tuple[int, str | None, Any]
_END: Final[_Entry] = (-1, "", None)


def read(text: str, depth: int, nodes: int) -> tuple[Json, dict[Key, int]] | None:
    """The one document of a text, with the line of each key and item; None for all that is not simple.

    None, too, for more than ``depth`` levels or ``nodes`` values.

    >>> read("a:\\n- 1\\n- b: [] \\n", 9, 9), read("a:\\n- 1\\n- b: []\\n", 9, 9)
    (None, ({'a': [1, {'b': []}]}, {(): 1, ('a',): 1, ('a', 0): 2, ('a', 1): 3, ('a', 1, 'b'): 3}))
    """
    if _OTHER.search(text):
        return None
    try:
        return _Blocks(text, depth, nodes).document()
    except _Unusual:
        return None


class _Blocks:
    def __init__(self, text: str, depth: int, nodes: int) -> None:
        self._depth = depth
        self._entries: list[_Entry] = []
        self._numbers: list[int] = []
        self._lines: dict[Key, int] = {}
        known: dict[str, tuple[_Entry, ...]] = {}  # most lines of a large file are there many times
        for number, line in enumerate(text.split("\n"), 1):
            if (entries := known.get(line)) is None:
                entries = known[line] = _entries(line)
            for entry in entries:
                self._entries.append(entry)
                self._numbers.append(number)
        if not self._entries or len(self._entries) >= nodes:
            raise _Unusual
        self._entries.append(_END)
        self._at = 0

    def document(self) -> tuple[Json, dict[Key, int]]:
        self._lines[()] = self._numbers[0]
        value = self._block(())
        if self._entries[self._at] is not _END:
            raise _Unusual  # a line with an indent with which no block above it goes on
        return value, self._lines

    def _block(self, key: Key) -> Json:
        """The mapping or list that begins here. It ends at the first line that is none of it."""
        if len(key) >= self._depth:
            raise _Unusual
        indent, name, _ = self._entries[self._at]
        return self._list(indent, key) if name is None else self._map(indent, key)

    def _map(self, indent: int, key: Key) -> Json:
        entries, numbers, lines = self._entries, self._numbers, self._lines
        found: dict[str, Json] = {}
        while True:
            begins, name, value = entries[self._at]
            if begins != indent:
                break
            if name is None or name in found:
                raise _Unusual
            own = (*key, name)
            lines[own] = numbers[self._at]
            self._at += 1
            if value is _OPEN:
                below, item, _ = entries[self._at]
                deeper = below > indent or (below == indent and item is None)
                found[name] = self._block(own) if deeper else None
            else:
                found[name] = value() if value is list or value is dict else value
        return found

    def _list(self, indent: int, key: Key) -> Json:
        entries, numbers, lines = self._entries, self._numbers, self._lines
        found: list[Json] = []
        while True:
            begins, name, value = entries[self._at]
            if begins != indent or name is not None:
                break
            own = (*key, len(found))
            lines[own] = numbers[self._at]
            self._at += 1
            if value is _OPEN:
                found.append(self._block(own))
            else:
                found.append(value() if value is list or value is dict else value)
        return found


def _entries(line: str) -> tuple[_Entry, ...]:
    """None of them for a line without content. Raises _Unusual."""
    match = None if len(line) > LONGEST else _LINE.fullmatch(line)
    if match is None:
        if _BLANK.fullmatch(line):
            return ()
        raise _Unusual
    spaces, item, key, word, single, double, empty = match.groups()
    indent, value = len(spaces), _OPEN
    if word is not None:
        value = _plain(word)
    elif single is not None or double is not None:
        value = double if single is None else single
    elif empty is not None:
        value = list if empty == "[]" else dict  # each has to be a new one
    if key is None:
        if item is None:
            raise _Unusual
        return ((indent, None, value),)
    if not isinstance(_plain(key), str):
        raise _Unusual
    return ((indent, key, value),) if item is None else ((indent, None, _OPEN), (indent + 2, key, value))


def _plain(word: str) -> Json:
    try:
        return plain(word)
    except OddNumber as odd:
        raise _Unusual from odd
