"""Kwalify, the schema language of barclamps, to JSON Schema 2020-12; Ruby's regular expressions to portable ones.

In Kwalify, a value that is not ``required`` may also be null. A mapping admits only the keys that it lists, and the key ``=``
stands for all others. A rule without an equivalent in JSON Schema is refused with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json

#: Kwalify's types; None admits everything.
TYPES: Final[Mapping[str, list[str] | None]] = {
    "str": ["string"],
    "text": ["string", "number"],
    "int": ["integer"],
    "float": ["number"],
    "number": ["number"],
    "bool": ["boolean"],
    "seq": ["array"],
    "map": ["object"],
    "scalar": ["string", "number", "boolean"],
    "date": ["string"],
    "time": ["string"],
    "timestamp": ["string"],
    "any": None,
}
KEYS: Final = (
    *("type", "required", "enum", "pattern", "range", "length", "unique", "sequence", "mapping"),
    *("name", "desc", "default", "ident", "class", "assert", "example"),
)
PATTERN_LENGTH: Final = 500  #: of a regular expression, in letters
VALUE_LENGTH: Final = 65_536  #: of text that is matched against one, unless the schema says less


Suggest: TypeAlias = Callable[[str, Iterable[str], Iterable[str]], str]


def translate(rule: Json, suggest: Suggest) -> dict[str, Json]:
    """The JSON Schema of a Kwalify rule; ``suggest(word, known words, those there already)`` ends the sentence about an unknown
    word.

    Raises Invalid with one problem, ``PATH: sentence`` (the sentence alone for the rule itself).
    """
    return _rule(rule, "", suggest)


def _rule(rule: Json, path: str, suggest: Suggest) -> dict[str, Json]:
    if not isinstance(rule, Mapping):
        raise _wrong(path, "a rule must be a mapping such as {type: str}")
    for key in rule:
        if key not in KEYS:
            raise _wrong(path, f"unknown key `{key}`{suggest(key, KEYS, rule)}")
    kind = rule.get("type", "map" if "mapping" in rule else "seq" if "sequence" in rule else "str")
    if kind not in TYPES:
        raise _wrong(path, f"unknown type `{kind}`{suggest(str(kind), TYPES, ())}")
    kinds, optional = TYPES[kind], rule.get("required") is not True
    schema: dict[str, Json] = {}
    if kinds is not None:
        wanted = kinds + (["null"] if optional else [])
        schema["type"] = wanted if len(wanted) > 1 else wanted[0]
    if isinstance(rule.get("desc"), str):
        schema["description"] = rule["desc"]
    schema |= _scalar_limits(rule, path, optional)
    if kind == "seq":
        schema |= _sequence(rule, path, suggest)
    if kind == "map":
        schema |= _mapping(rule, path, suggest)
    return schema


def _scalar_limits(rule: Mapping[str, Any], path: str, optional: bool) -> dict[str, Json]:
    limits: dict[str, Json] = {}
    if "enum" in rule:
        if not isinstance(rule["enum"], list) or not rule["enum"]:
            raise _wrong(path, "enum must be a list with at least one value")
        limits["enum"] = rule["enum"] + ([None] if optional and None not in rule["enum"] else [])
    if "pattern" in rule:
        try:
            limits["pattern"] = expression(str(rule["pattern"]))
        except ValueError as error:
            raise _wrong(path, f"pattern {rule['pattern']}: {error}") from None
        limits["maxLength"] = VALUE_LENGTH
    limits |= _bounds(rule, path, "range", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
    limits |= _bounds(rule, path, "length", ("minLength", "maxLength", None, None))
    return limits


def _bounds(rule: Mapping[str, Any], path: str, key: str, names: tuple[str | None, ...]) -> dict[str, Json]:
    wanted = rule.get(key, {})
    if not isinstance(wanted, Mapping) or not wanted.keys() <= {"min", "max", "min-ex", "max-ex"}:
        raise _wrong(path, f"{key} must be a mapping with min, max, min-ex or max-ex")
    limits: dict[str, Json] = {}
    for word, name, step in zip(("min", "max", "min-ex", "max-ex"), names, (0, 0, 1, -1), strict=True):
        if word not in wanted:
            continue
        number = wanted[word]
        if isinstance(number, bool) or not isinstance(number, int if key == "length" else int | float):
            raise _wrong(path, f"{key}/{word} must be a number")
        limits[name or str(names[0 if step > 0 else 1])] = number if name else number + step
    return limits


def _sequence(rule: Mapping[str, Any], path: str, suggest: Suggest) -> dict[str, Json]:
    items = rule.get("sequence")
    if not isinstance(items, list) or len(items) != 1:
        raise _wrong(path, "a seq needs a key sequence: a list of the one rule for its items")
    schema: dict[str, Json] = {"items": _rule(items[0], f"{path}/sequence/0".lstrip("/"), suggest)}
    if isinstance(items[0], Mapping) and items[0].get("unique") is True:
        schema["uniqueItems"] = True
    return schema


def _mapping(rule: Mapping[str, Any], path: str, suggest: Suggest) -> dict[str, Json]:
    keys = rule.get("mapping")
    if not isinstance(keys, Mapping):
        raise _wrong(path, "a map needs a key mapping: the rule for each key, and for all others under the key =")
    rules = {key: _rule(inner, f"{path}/mapping/{key}".lstrip("/"), suggest) for key, inner in keys.items()}
    others = rules.pop("=", False)
    schema: dict[str, Json] = {"properties": rules, "additionalProperties": others}
    required = [key for key, inner in keys.items() if key != "=" and inner.get("required") is True]
    return schema | ({"required": required} if required else {})


def _wrong(path: str, sentence: str) -> Invalid:
    return Invalid(f"{path}: {sentence}" if path else sentence)


def expression(ruby: str) -> str:
    r"""A regular expression of Ruby for JSON Schema, without its slashes; it matches anywhere, as in Ruby.

    Raises ValueError for an expression without an equivalent, or with a match that could take for ever.

    >>> expression(r"/\Ahttp:\/\/.+\z/")
    '^http://.+$'
    """
    delimited = re.fullmatch(r"/(.*)/([a-z]*)", ruby.strip(), re.DOTALL)
    body, options = delimited.groups() if delimited else (ruby, "")
    if options:
        raise ValueError(f"the option {options} after the slash has no counterpart; write it into the expression")
    if len(body) > PATTERN_LENGTH:
        raise ValueError(f"is longer than {PATTERN_LENGTH} letters")
    portable = re.sub(r"\\(.)", _escape, body, flags=re.DOTALL)
    try:
        re.compile(portable)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if _nests(portable):
        raise ValueError(
            "repeats a group that repeats or has alternatives itself, which can take for ever; write it flat"
        )
    return portable


_ESCAPES: Final = {"A": "^", "z": "$", "Z": "$", "h": "[0-9a-fA-F]", "/": "/", ":": ":", "-": r"\-"}


def _escape(match: re.Match[str]) -> str:
    letter = match[1]
    if letter in "GKRXHpPk":
        raise ValueError(f"\\{letter} is Ruby's own and has no counterpart")
    return _ESCAPES.get(letter, match[0])


def _nests(expression: str) -> bool:
    """Whether an unbounded repetition stands around another, or around alternatives."""
    plain = re.sub(r"\\.", "a", expression)
    plain = re.sub(r"\[\^?\]?[^\]]*\]", "a", plain)
    repeats = [False]  # for each open group: does it hold something that makes repeating it slow?
    for position, letter in enumerate(plain):
        unbounded = re.match(r"[*+]|\{\d*,\}", plain[position:])
        if letter == "(":
            repeats.append(False)
        elif letter == ")" and len(repeats) > 1:
            slow = repeats.pop()
            if slow and re.match(r"[*+]|\{\d*,\d*\}|\{\d{2,}\}", plain[position + 1 :]):
                return True
            repeats[-1] = repeats[-1] or slow
        elif unbounded or letter == "|":
            repeats[-1] = True
    return False
