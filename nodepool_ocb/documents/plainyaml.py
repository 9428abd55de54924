"""YAML to plain JSON values, read with suspicion: parser events become values here, without any other effect.

- Scalars are those of YAML 1.2, as ``scalars`` has them. Numbers with leading zeros are text (``0755`` and ``0000`` are no
  decimal numbers to their author). An integer stays one, of any size.
- A text of simple lines is read without the parser, by ``blocks``.
- Refused: duplicate keys, keys that are not text, tags, numbers beyond JSON, more than DEPTH levels or ALIASES aliases.
- Refused: more than NODES nodes, with aliases and merge keys counted as often as they are used.
- Faults are collected, with their lines; faulty entries are left out of the value. A fault of the syntax, or a passed
  limit, ends the text.
- A key that occurs twice with one and the same value is a warning; the reader decides whether it is a fault.
- A reader that asks for the ``last`` gets the last value of a repeated key, as most readers of YAML do, and a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from nodepool_ocb.documents import blocks, scalars
from nodepool_ocb.documents.blocks import Key as Key
from nodepool_ocb.model.records import Json

DEPTH: Final = 50
ALIASES: Final = 100
TWICE: Final = 100  # keys of which the last counts
NODES: Final = 100_000
_CORE: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq"))
_STR: Final = "tag:yaml.org,2002:str"


class Fault(msgspec.Struct, frozen=True):
    """A fault in a document: its line, its path and a sentence."""

    line: int
    text: str
    path: str = ""
    key: Key = ()
    unknown: str | None = None  # the key, if the fault is that it is unknown
    meant: str | None = None  # the key that was probably meant

    def at(self, name: str) -> str:
        """``FILE:LINE: PATH: sentence``."""
        return f"{name}:{self.line}: {self.path}: {self.text}" if self.path else f"{name}:{self.line}: {self.text}"


class ParsedYaml(msgspec.Struct, frozen=True):
    """A text's value, the line (from 1) of every key and item of it, and its faults."""

    value: Json
    lines: dict[Key, int]
    faults: list[Fault]
    warnings: list[Fault] = []  # by which nothing is lost


def parse(text: str) -> ParsedYaml:
    """The one document of a text. Never raises: text that cannot be parsed is one more fault."""
    return _simple(text, NODES) or next(_documents(text, only=True))


def parse_all(text: str, last: bool = False, nodes: int = NODES) -> list[ParsedYaml]:
    """Every document of a text, those that are empty too; the limits are those of the whole text. Never raises.

    ``last``: of a key that is there twice the last value counts; ``nodes``: how many there may be.

    >>> [parsed.value for parsed in parse_all("a: 1\\n---\\nb: 2\\n")]
    [{'a': 1}, {'b': 2}]
    """
    simple = _simple(text, nodes)
    return [simple] if simple else list(_documents(text, last=last, nodes=nodes))


def _simple(text: str, nodes: int) -> ParsedYaml | None:
    """A text without faults that needs no parser; None for another."""
    found = blocks.read(text, DEPTH, nodes)
    return None if found is None else ParsedYaml(*found, [])


def _documents(text: str, only: bool = False, last: bool = False, nodes: int = NODES) -> Iterator[ParsedYaml]:
    """The documents of a text. Text that cannot be parsed ends them, as a fault of the document in which it stands."""
    reader = _YamlReader(text, last, nodes)
    going_on = True
    while going_on:
        value: Json = None
        try:
            value = reader.document()
            going_on = reader.another()
            if only and going_on:
                reader.refuse_another()
                going_on = False
        except yaml.YAMLError as error:
            reader.faults.append(_syntax(error, text))
            going_on = False
        except _TooMuch as error:
            reader.faults.append(Fault(error.line, str(error)))
            going_on = False
        faults, warnings = (sorted(found, key=lambda fault: fault.line) for found in (reader.faults, reader.warnings))
        yield ParsedYaml(value, reader.lines, faults, warnings)


def _syntax(error: yaml.YAMLError, text: str) -> Fault:
    mark = getattr(error, "problem_mark", None)
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        return Fault(mark.line + 1, "is not YAML: a tab; use spaces")
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context, began = getattr(error, "context", None), getattr(error, "context_mark", None)
    if context and mark and began is not None and began.line != mark.line:
        context += f" that begins in line {began.line + 1}"
    return Fault(
        mark.line + 1 if mark else 1,
        f"is not YAML: {problem}" + (f" {context}" if context else "") + "; correct it here or just above",
    )


class _TooMuch(Exception):
    """A limit was passed: nothing after it is looked at."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


class _Sized(msgspec.Struct):
    """A value, and how many nodes one meets on a walk through it."""

    value: Json
    nodes: int


def _events(text: str) -> Iterator[Any]:
    """As ``yaml.parse``, with one call instead of two for each event. Raises YAMLError."""
    yield from iter(yaml.CSafeLoader(text).get_event, None)


class _YamlReader:
    """Events of the parser to one value; faults are noted, and faulty entries are left out."""

    def __init__(self, text: str, last: bool, most: int) -> None:
        self._last, self._most = last, most
        self._twice = 0  # keys of which the last counts
        self._events = _events(text)
        self._anchors: dict[str, _Sized | None] = {}
        self._aliases = 0
        self._nodes = 0  # of the documents before this one
        self._start: Any = None  # the event that begins the next document, or ends the stream
        self.lines: dict[Key, int] = {}
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def document(self) -> Json:
        """The next document of the stream; None if there is none."""
        self.lines, self.faults, self.warnings, self._anchors = {}, [], [], {}
        if self._start is None:
            next(self._events)  # the start of the stream
            self._start = next(self._events)
        if isinstance(self._start, yaml.StreamEndEvent):
            return None
        sized = self._value(next(self._events), ())
        next(self._events)  # the end of the document
        self._nodes += sized.nodes
        return sized.value

    def another(self) -> bool:
        """Whether a further document begins."""
        if not isinstance(self._start, yaml.StreamEndEvent):
            self._start = next(self._events)
        return not isinstance(self._start, yaml.StreamEndEvent)

    def refuse_another(self) -> None:
        self._note(self._start, (), "a second document begins here; put one document in a file")

    def _value(self, event: Any, key: Key) -> _Sized:
        if len(key) > DEPTH:
            raise _TooMuch(f"is nested deeper than {DEPTH} levels; write it flatter", _line(event))
        if key not in self.lines:
            self.lines[key] = _line(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # until it is whole, it cannot be used
        if event.tag is not None:
            self._check_tag(event, key)
        if isinstance(event, yaml.ScalarEvent):
            sized = _Sized(self._scalar(event, key), 1)
        else:
            sized = self._list(key) if isinstance(event, yaml.SequenceStartEvent) else self._map(key)
        self._bound(sized.nodes, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = sized
        return sized

    def _alias(self, event: Any) -> _Sized:
        self._aliases += 1
        if self._aliases > ALIASES:
            raise _TooMuch(f"has more than {ALIASES} aliases; write the values out", _line(event))
        sized = self._anchors.get(event.anchor)
        if sized is None:
            why = "holds itself" if event.anchor in self._anchors else "is not defined before it is used"
            raise _TooMuch(f"alias *{event.anchor} {why}; write the value out", _line(event))
        return sized

    def _list(self, key: Key) -> _Sized:
        items: list[Json] = []
        nodes = 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            item = self._value(event, (*key, len(items)))
            items.append(item.value)
            nodes += item.nodes
            self._bound(nodes, event)
        return _Sized(items, nodes)

    def _map(self, key: Key) -> _Sized:
        mapping: dict[str, Json] = {}
        merged: dict[str, Json] = {}
        nodes = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            name, merge = self._key(event, key)
            again = name in mapping
            if name is not None and again and (self._last or mapping[name] is None):
                again = False
                self._replaced(event, (*key, name), mapping[name])
            if name is not None and not again:
                self.lines[(*key, name)] = _line(event)
            sized = self._value(next(self._events), (*key, name if name is not None and not again else "?"))
            nodes += sized.nodes
            self._bound(nodes, event)
            if merge:
                self._merge(event, key, sized.value, merged)
            elif name is not None and again:
                self._again(event, (*key, name), mapping[name], sized.value)
            elif name is not None:
                mapping[name] = sized.value
        return _Sized({**merged, **mapping}, nodes)

    def _replaced(self, event: Any, key: Key, before: Json) -> None:
        """A key occurs twice, and the later value counts: because the last one counts, or because the first was empty."""
        self._twice += 1
        if self._twice > TWICE:
            raise _TooMuch(f"has more than {TWICE} keys twice; remove each second one", _line(event))
        empty = " without a value" if before is None else ""
        text = f"key is there twice, first in line {self.lines[key]}{empty}; this value counts"
        self._note(event, key, text, self.warnings)
        self.lines = {each: line for each, line in self.lines.items() if each[: len(key)] != key}

    def _again(self, event: Any, key: Key, before: Json, value: Json) -> None:
        """A key occurs twice. That is a warning if the values are equal, or if the second is empty."""
        first = f"first in line {self.lines[key]}"
        if value is None:
            self._note(
                event, key, f"key is there twice, here without a value, {first}; that value counts", self.warnings
            )
        elif _same(before, value):
            self._note(event, key, f"key is there twice with one value, {first}; remove one of them", self.warnings)
        else:
            self._note(event, key, f"key is there twice, {first}; remove one of them")

    def _key(self, event: Any, key: Key) -> tuple[str | None, bool]:
        """The key that an event is, None where it is none; and whether it is the merge key."""
        if not isinstance(event, yaml.ScalarEvent):
            self._note(event, key, "a key must be text, and is not; quote it")
            self._value(event, (*key, "?"))
            return None, False
        if event.value == "<<" and not event.style:
            return None, True
        name = self._scalar(event, key)
        if not isinstance(name, str):
            self._note(event, key, f"key {event.value or 'null'} must be text, and is {kind_of(name)}; quote it")
            return None, False
        return name, False

    def _merge(self, event: Any, key: Key, value: Json, merged: dict[str, Json]) -> None:
        """The keys of one mapping, or of several, of which the first wins."""
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            self._note(event, key, "merge key << needs a mapping, or a list of mappings; give it one")
            return
        for source in sources:
            for name, inner in source.items():
                if name not in merged:
                    merged[name] = inner
                    self.lines.setdefault((*key, name), _line(event))

    def _scalar(self, event: Any, key: Key) -> Json:
        text: str = event.value
        plain = not event.style and event.tag is None
        if not plain and (event.tag is None or event.tag in ("!", _STR) or event.tag not in _CORE):
            return text
        try:
            return scalars.plain(text)
        except scalars.OddNumber as odd:
            self._note(event, key, str(odd))
            return odd.value

    def _check_tag(self, event: Any, key: Key) -> None:
        if event.tag != "!" and event.tag not in _CORE:
            self._note(event, key, f"tag {event.tag} is not allowed; remove it: documents are plain data")

    def _bound(self, nodes: int, event: Any) -> None:
        if self._nodes + nodes > self._most:
            raise _TooMuch(
                f"makes more than {self._most} values, aliases and merge keys counted; split it", _line(event)
            )

    def _note(self, event: Any, key: Key, text: str, among: list[Fault] | None = None) -> None:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in key).lstrip(".")
        (self.faults if among is None else among).append(Fault(_line(event), text, path, key))


def _same(first: Json, second: Json) -> bool:
    """Whether two values are one, of the same types: 1, 1.0 and true are three."""
    return msgspec.json.encode(first, order="sorted") == msgspec.json.encode(second, order="sorted")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def kind_of(value: Json) -> str:
    """The kind of a value, in words.

    >>> kind_of([1]), kind_of(None)
    ('a list', 'nothing')
    """
    kinds = ((bool, "true or false"), ((int, float), "a number"), (str, "text"), (list, "a list"), (dict, "a mapping"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "nothing")
