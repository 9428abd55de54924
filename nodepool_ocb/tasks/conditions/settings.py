"""The settings language, Fuel's: ``settings:storage.objects_ceph.value == true and not (cluster:status == 'new')``.

Words: whole numbers, 'text' or "text", ``true false null``, ``and or not in == !=``, brackets, and paths, ``model:a.b.c``. From
loose to tight: ``or``; ``and``; ``==`` and ``!=``; ``in``; ``not``. So ``not 'x' in y`` is ``(not 'x') in y``, and
``not a == b`` is ``(not a) == b``, as Fuel had it. A path that ends with ``?`` is null where it leads nowhere; another one is an
error there, unless its document says ``strict: false``. An unknown model is always one. A letter that begins no word is an
error; Fuel left it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions.faults import at, check_nesting, check_size, check_words, illegal
from nodepool_ocb.tasks.conditions.models import Models
from nodepool_ocb.tasks.conditions.tree import BinaryOperation, Constant, FactReference, Negation, Node

MODELS: Final = ("settings", "cluster")
CONSTANTS: Final = {"true": True, "false": False, "null": None}
#: Operators of two operands, from loose to tight.
LEVELS: Final = (("or",), ("and",), ("==", "!="), ("in",))
WORDS: Final = ("and", "or", "not", "in", "true", "false", "null")

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\n]+)
    |   (?P<path>[A-Za-z_]\w*:[\w.-]+\??)
    |   (?P<number>-?[0-9]+(?![\w.]))
    |   (?P<text>'[^']*'|"[^"]*")
    |   (?P<word>[A-Za-z_]\w*)
    |   (?P<sign>==|!=|[()])""",
    re.VERBOSE | re.ASCII,
)


class SettingsToken(NamedTuple):
    """``kind``: path, number, text, word, sign; or end."""

    kind: str
    text: str
    position: int


def parse(text: str, *, strict: bool = True) -> Node:
    """Raises Invalid, with the place in the text."""
    check_size(text)
    return _Parser(list(_tokens(text)), strict).whole()


def lookup(fact: FactReference, models: Models) -> Json:
    """Raises Invalid for a path that leads nowhere and must not."""
    value: Json = models.settings if fact.path[0] == "settings" else models.cluster
    gone = f"{fact.path[0]}:"
    for name in fact.path[1:]:
        if not isinstance(value, Mapping) or name not in value:
            return _missing(fact, gone, name, value)
        value, gone = value[name], f"{gone}{'' if gone.endswith(':') else '.'}{name}"
    return value


def _missing(fact: FactReference, gone: str, name: str, value: Json) -> None:
    if not fact.strict:
        return
    near = did_you_mean(name, map(str, value)) if isinstance(value, Mapping) else ""
    raise Invalid(
        f"{fact.text} leads nowhere: {gone} has no `{name}`{near or f'; write {fact.text}? if it may be missing'}"
    )


def _tokens(text: str) -> Iterator[SettingsToken]:
    position = count = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise illegal(text, position)
        kind = match.lastgroup or ""
        if kind != "blank":
            count += 1
            check_words(count, position)
            yield SettingsToken(kind, match.group(), position)
        position = match.end()
    yield SettingsToken("end", "", len(text))


class _Parser:
    """Reads by precedence, one method for every level. The depth of brackets is bounded, and so is that of its calls."""

    def __init__(self, tokens: list[SettingsToken], strict: bool) -> None:
        self._tokens = tokens
        self._strict = strict
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._level(0)
        if self._token.kind != "end":
            raise at(
                self._token.position,
                f"`{self._token.text}` comes where and, or, == or the end was expected; correct it there",
            )
        return node

    @property
    def _token(self) -> SettingsToken:
        return self._tokens[self._next]

    def _level(self, level: int) -> Node:
        if level == len(LEVELS):
            return self._operand()
        node = self._level(level + 1)
        while self._token.kind in ("word", "sign") and self._token.text in LEVELS[level]:
            word = self._take().text
            node = BinaryOperation(word, node, self._level(level + 1))
        return node

    def _operand(self) -> Node:
        negations = 0
        while self._token.kind == "word" and self._token.text == "not":
            self._take()
            negations += 1
        node = self._bracket() if self._token.text == "(" else self._value(self._take())
        for _ in range(negations):
            node = Negation(node)
        return node

    def _bracket(self) -> Node:
        opening = self._take()
        self._depth += 1
        check_nesting(self._depth, opening.position)
        node = self._level(0)
        if self._token.text != ")":
            raise at(self._token.position, f"`)` is missing for the `(` at character {opening.position + 1}; add it")
        self._take()
        self._depth -= 1
        return node

    def _value(self, token: SettingsToken) -> Node:
        match token.kind:
            case "number":
                return Constant(int(token.text))
            case "text":
                return Constant(token.text[1:-1])
            case "path":
                return self._path(token)
            case "word" if token.text in CONSTANTS:
                return Constant(CONSTANTS[token.text])
        raise at(token.position, _no_value(token))

    def _path(self, token: SettingsToken) -> FactReference:
        model, _, rest = token.text.removesuffix("?").partition(":")
        if model not in MODELS:
            known = did_you_mean(model, MODELS) or f"; known are {' and '.join(MODELS)}"
            raise at(token.position, f"there is no model `{model}`{known}")
        names = tuple(rest.split("."))
        if not all(names):
            raise at(token.position, f"`{token.text}` has a name too few between its dots; correct it")
        return FactReference(token.text, (model, *names), strict=self._strict and not token.text.endswith("?"))

    def _take(self) -> SettingsToken:
        token = self._token
        self._next += token.kind != "end"
        return token


def _no_value(token: SettingsToken) -> str:
    if token.kind == "end":
        return "a value was expected, and the condition ends; write it"
    if token.kind == "word" and token.text not in WORDS:
        near = did_you_mean(token.text, WORDS) or "; write settings:a.b, 'text', a number or true"
        return f"`{token.text}` is no value{near}"
    return f"`{token.text}` comes where a value was expected; correct it there"
