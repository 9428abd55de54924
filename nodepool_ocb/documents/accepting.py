"""Whether a value matches a JSON Schema, and nothing about its faults: a hundred times faster than the library that names them.

A function is made from the schema once. True is certain. False is not: a number may equal one of another type, and a list may
hold maps that differ. Then the library must look at the value, too. A schema with an unknown keyword accepts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from nodepool_ocb.model.records import Json

Accepts: TypeAlias = Callable[[Any], bool]

#: Keywords that demand nothing.
_NOTES: Final = frozenset({"$schema", "$defs", "title", "description", "deprecated", "default", "examples"})
_KINDS: Final[Mapping[str, Accepts]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_Plain: Final = (str, int, type(None))  # also true and false
_WITH_ELSE: Final = frozenset({"then", "else"})
_WITH_PROPERTIES: Final = "additionalProperties"


class _UnknownKeyword(Exception):
    """A keyword that this module does not know."""


def acceptor(schema: Json, defs: Mapping[str, Json]) -> Accepts:
    """``defs``: the targets of references, ``#/$defs/NAME``. A whole number is an int that is no bool.

    >>> accepts = acceptor({"type": "array", "items": {"type": "integer"}}, {})
    >>> accepts([1, 2]), accepts([1, "2"]), acceptor({"contains": 1}, {})([])
    (True, False, False)
    """
    try:
        return _Maker(defs).of(schema)
    except _UnknownKeyword:
        return _nothing


def _anything(_: Any) -> bool:
    return True


def _nothing(_: Any) -> bool:
    return False


class _Maker:
    def __init__(self, defs: Mapping[str, Json]) -> None:
        self._defs = defs
        self._made: dict[str, Accepts] = {}

    def of(self, schema: Json) -> Accepts:
        """Raises _UnknownKeyword."""
        if not isinstance(schema, dict):
            return _anything if schema is True else _nothing
        tests: list[Accepts] = []
        for keyword, rule in schema.items():
            if keyword in _BOUNDS:
                tests.append(_BOUNDS[keyword](rule))
            elif keyword in _PARTS:
                tests.append(_PARTS[keyword](self, schema))
            elif keyword not in _NOTES and not (keyword in _WITH_ELSE and "if" in schema):
                raise _UnknownKeyword(keyword)
        return _all(tests)

    def each(self, schemas: Iterable[Json]) -> list[Accepts]:
        return [self.of(schema) for schema in schemas]

    def target(self, reference: str) -> Accepts:
        """The test of a definition, which may refer to itself."""
        name = reference.removeprefix("#/$defs/")
        if name not in self._defs:
            raise _UnknownKeyword(reference)
        if name not in self._made:
            self._made[name] = lambda value: self._made[name](value)  # until it is made
            self._made[name] = self.of(self._defs[name])
        return lambda value: self._made[name](value)


def _all(tests: list[Accepts]) -> Accepts:
    if len(tests) < 2:
        return tests[0] if tests else _anything
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)

    def accepts(value: Any) -> bool:
        for test in tests:  # noqa: SIM110  # all() with a generator takes twice as long
            if not test(value):
                return False
        return True

    return accepts


def _type(rule: Any) -> Accepts:
    if isinstance(rule, str):
        return _KINDS[rule]
    kinds = [_KINDS[each] for each in rule]
    return lambda value: any(kind(value) for kind in kinds)


def _of_kind(kind: type | tuple[type, ...], test: Accepts) -> Accepts:
    """A rule that is about values of this kind alone; no bool is a number."""
    if kind is dict or kind is list or kind is str:
        return lambda value: not isinstance(value, kind) or test(value)
    return lambda value: not isinstance(value, kind) or isinstance(value, bool) or test(value)


def _one_of(values: Any) -> Accepts:
    """False for a value of another type: 1 and 1.0 are equal in JSON, and 1 and true are in Python."""
    known = frozenset((type(each), each) for each in values if isinstance(each, _Plain))
    texts = frozenset(
        each for each in values if isinstance(each, str)
    )  # of a class below str, too: here False is certain
    return lambda value: (
        value in texts if isinstance(value, str) else isinstance(value, _Plain) and (type(value), value) in known
    )


def _matching(pattern: Any) -> Accepts:
    search = re.compile(pattern).search
    return _of_kind(str, lambda value: search(value) is not None)


def _unique(rule: Any) -> Accepts:
    """False for a list with other items than texts."""
    if not rule:
        return _anything
    return _of_kind(list, lambda value: all(isinstance(each, str) for each in value) and len({*value}) == len(value))


def _object(maker: _Maker, schema: Mapping[str, Any]) -> Accepts:
    properties = dict(zip(known := schema.get("properties", {}), maker.each(known.values()), strict=True))
    others = maker.of(schema.get(_WITH_PROPERTIES, True))

    find = properties.get

    def accepts(value: Any) -> bool:
        if isinstance(value, dict):
            for name, inner in value.items():
                if not find(name, others)(inner):
                    return False
        return True

    return accepts


def _others(maker: _Maker, schema: Mapping[str, Any]) -> Accepts:
    return _anything if "properties" in schema else _object(maker, schema)


def _items(maker: _Maker, schema: Mapping[str, Any]) -> Accepts:
    item = maker.of(schema["items"])
    return _of_kind(list, lambda value: all(map(item, value)))


def _names(maker: _Maker, schema: Mapping[str, Any]) -> Accepts:
    name = maker.of(schema["propertyNames"])
    return _of_kind(dict, lambda value: all(map(name, value)))


def _any_of(maker: _Maker, schema: Mapping[str, Any]) -> Accepts:
    tests = maker.each(schema["anyOf"])
    return lambda value: any(test(value) for test in tests)


def _if(maker: _Maker, schema: Mapping[str, Any]) -> Accepts:
    """An ``if`` that is not certain of False is refused: its ``else`` would decide about a value that matches."""
    if not _certain(schema["if"]):
        raise _UnknownKeyword("if")
    condition = maker.of(schema["if"])
    then, otherwise = maker.of(schema.get("then", True)), maker.of(schema.get("else", True))
    return lambda value: (then if condition(value) else otherwise)(value)


def _certain(schema: Json) -> bool:
    """Whether False is certain, too: with these keywords alone, and a text as ``const``."""
    if not isinstance(schema, dict):
        return True
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    known = {"properties", "anyOf", "required", "type", "const", *_NOTES}
    return known >= schema.keys() and isinstance(schema.get("const", ""), str) and all(map(_certain, parts))


#: Rules that need their value alone.
_BOUNDS: Final[Mapping[str, Callable[[Any], Accepts]]] = {
    "type": _type,
    "required": lambda rule: _of_kind(dict, lambda value: all(name in value for name in rule)),
    "enum": _one_of,
    "const": lambda rule: _one_of([rule]),
    "pattern": _matching,
    "minimum": lambda rule: _of_kind((int, float), lambda value: value >= rule),
    "maximum": lambda rule: _of_kind((int, float), lambda value: value <= rule),
    "exclusiveMinimum": lambda rule: _of_kind((int, float), lambda value: value > rule),
    "minLength": lambda rule: _of_kind(str, lambda value: len(value) >= rule),
    "maxLength": lambda rule: _of_kind(str, lambda value: len(value) <= rule),
    "minItems": lambda rule: _of_kind(list, lambda value: len(value) >= rule),
    "maxItems": lambda rule: _of_kind(list, lambda value: len(value) <= rule),
    "minProperties": lambda rule: _of_kind(dict, lambda value: len(value) >= rule),
    "maxProperties": lambda rule: _of_kind(dict, lambda value: len(value) <= rule),
    "uniqueItems": _unique,
}
#: Rules with schemas in them, or beside them.
_PARTS: Final[Mapping[str, Callable[[_Maker, Mapping[str, Any]], Accepts]]] = {
    "$ref": lambda maker, schema: maker.target(schema["$ref"]),
    "properties": _object,
    _WITH_PROPERTIES: _others,
    "items": _items,
    "propertyNames": _names,
    "anyOf": _any_of,
    "allOf": lambda maker, schema: _all(maker.each(schema["allOf"])),
    "if": _if,
}
