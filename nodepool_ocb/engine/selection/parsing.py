"""The text of a selector to its expression. Pure.

    either    = all {"or" all}
    all       = single {["and"] single}
    single    = "not" single | "(" either ")" | "has" "(" either ")" | criterion
    criterion = flag | [kind ":"] value {"," value} | number (">=" | "<=" | ">" | "<" | "=") value

A value may have ``*``, ``?`` and ``[...]``, which in quotes, single or double, stand for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.selection.expression import (
    BEGINNINGS,
    FLAGS,
    NUMERIC,
    YES_OR_NO,
    All,
    Criterion,
    CriterionKind,
    Either,
    Expression,
    Has,
    Not,
    Word,
)
from nodepool_ocb.engine.selection.facts import COMPARES, quantity
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.drift import UNCHECKED, Drift
from nodepool_ocb.model.records import State

LONGEST: Final = 1024  # of a selector, in characters
PARTS: Final = 200  # values, flags and operators
DEPTH: Final = 30

_TOKEN: Final = re.compile(r"""\s*(?:(?P<mark>[()])|(?P<word>(?:"[^"]*"|'[^']*'|[^\s()"'])+))""")
_PIECE: Final = re.compile(r""""([^"]*)"|'([^']*)'|([^"'])""")
_SPECIAL: Final = frozenset("*?[")
_FIXED: Final = {
    CriterionKind.STATE: tuple(map(str, State)),
    CriterionKind.DRIFT: (*map(str, Drift), UNCHECKED),
    **dict.fromkeys(YES_OR_NO, ("yes", "no")),
}


class Letter(NamedTuple):
    """One letter of a word; ``plain``: not quoted, so it may be part of the language."""

    text: str
    plain: bool
    at: int


class SelectorToken(NamedTuple):
    text: str
    at: int
    letters: tuple[Letter, ...]  # none of a parenthesis

    @property
    def bare(self) -> str:
        """The token as a word of the language, in lower case; empty if any of it is quoted."""
        return self.text.lower() if all(letter.plain for letter in self.letters) else ""


def parse(text: str) -> Expression:
    """The expression of a selector; raises Invalid, with the place.

    >>> parse("tag:web role:ntp").parts[1].kind
    <CriterionKind.ROLE: 'role'>
    """
    if len(text) > LONGEST:
        raise Invalid(f"the selector has {len(text)} characters, and may have {LONGEST}; shorten it")
    tokens = list(_tokens(text))
    if not tokens:
        raise Invalid("the selector is empty; write '*' for everything")
    if len(tokens) > PARTS:
        raise Invalid(f"the selector has {len(tokens)} parts, and may have {PARTS}; shorten it")
    reader = _TokenReader(tokens, len(text) + 1)
    found = reader.either(0)
    reader.end()
    return found


def _tokens(text: str) -> Iterable[SelectorToken]:
    end = len(text.rstrip())
    at = 0
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            wrong(len(text[:at]) + len(text[at:]) - len(text[at:].lstrip()) + 1, "this quote is not closed; close it")
        group = "mark" if found["mark"] else "word"
        yield SelectorToken(found[group], found.start(group) + 1, tuple(_letters(found, group)))
        at = found.end()


def _letters(found: re.Match[str], group: str) -> Iterable[Letter]:
    if group == "mark":
        return
    for piece in _PIECE.finditer(found.string, found.start(group), found.end(group)):
        plain = piece[3] is not None
        inside = piece[3] if plain else piece[1] if piece[1] is not None else piece[2]
        if not plain and not inside:
            yield Letter("", False, piece.start() + 1)
        for offset, letter in enumerate(inside):
            yield Letter(letter, plain, piece.start() + 1 + offset + (not plain))


class _TokenReader:
    """The tokens, and how far they are read."""

    def __init__(self, tokens: list[SelectorToken], end: int) -> None:
        self._tokens, self._end, self._next = tokens, end, 0

    def end(self) -> None:
        if self._next < len(self._tokens):
            wrong(self._tokens[self._next].at, "this parenthesis closes nothing; delete it")

    def either(self, depth: int) -> Expression:
        parts = [self._all(depth)]
        while self._peek() == "or":
            self._next += 1
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _all(self, depth: int) -> Expression:
        parts = [self._single(depth)]
        while self._peek() not in ("or", ")", None):
            if self._peek() == "and":
                self._next += 1
            parts.append(self._single(depth))
        _refuse_two_of_one(parts)
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _single(self, depth: int) -> Expression:
        token = self._take()
        if depth == DEPTH:
            wrong(token.at, f"nested deeper than {DEPTH}; write it flatter")
        if token.bare == "not":
            return Not(self._single(depth + 1))
        if token.bare == "has" and self._peek() == "(":
            self._next += 1
            return Has(self._inside(token, depth))
        if token.text == "(":
            return self._inside(token, depth)
        if token.text == ")" or token.bare in ("and", "or"):
            wrong(token.at, f"a criterion is missing before {token.text!r}; write one, such as tag:web")
        return _criterion(token)

    def _inside(self, opening: SelectorToken, depth: int) -> Expression:
        found = self.either(depth + 1)
        if self._peek() != ")":
            wrong(opening.at, "this parenthesis is not closed; close it")
        self._next += 1
        return found

    def _peek(self) -> str | None:
        if self._next == len(self._tokens):
            return None
        token = self._tokens[self._next]
        return token.bare if token.letters else token.text

    def _take(self) -> SelectorToken:
        if self._next == len(self._tokens):
            wrong(self._end, "a criterion is missing at the end; write one, such as tag:web")
        self._next += 1
        return self._tokens[self._next - 1]


def _criterion(token: SelectorToken) -> Criterion:
    if token.bare in FLAGS:
        return Criterion(CriterionKind(token.bare), at=token.at)
    compared = _comparison(token)
    if compared is not None:
        return compared
    key, colon, rest = _split(token.letters, ":")
    if not colon:
        return Criterion(CriterionKind.NAME, _values(CriterionKind.NAME, token.letters, token.at), token.at)
    name = "".join(letter.text for letter in key).lower()
    if name not in {*CriterionKind} - FLAGS:
        if name in FLAGS:
            wrong(token.at, f"{name} has no value: write {name}, or not {name}")
        wrong(
            token.at,
            f"there is no criterion {name!r}{did_you_mean(name, CriterionKind) or f'; these are: {_all_kinds()}'}",
        )
    if name in NUMERIC:
        wrong(token.at, f"{name} is a number: write {name}>=VALUE, or another of {', '.join(COMPARES)}")
    return Criterion(CriterionKind(name), _values(CriterionKind(name), rest, token.at), token.at)


def _comparison(token: SelectorToken) -> Criterion | None:
    """A comparison of a number, such as memory>=64G; None for another token."""
    places = [place for place, letter in enumerate(token.letters) if letter.plain and letter.text in "<>="]
    if not places:
        return None
    key = "".join(letter.text for letter in token.letters[: places[0]])
    name = key.lower()
    if ":" in key or (name not in NUMERIC and token.letters[places[0]].text == "="):
        return None  # label:KEY=VALUE, and names
    if name not in NUMERIC:
        known = ", ".join(sorted(NUMERIC))
        wrong(token.at, f"{key!r} is no number of a machine{did_you_mean(name, NUMERIC) or f'; these are: {known}'}")
    end = places[0] + (2 if places[1:2] == [places[0] + 1] else 1)
    sign = "".join(letter.text for letter in token.letters[places[0] : end])
    value = "".join(letter.text for letter in token.letters[end:])
    if sign not in COMPARES:
        wrong(token.letters[places[0]].at, f"there is no operator {sign!r}; these are: {', '.join(COMPARES)}")
    try:
        quantity(CriterionKind(name), value)
    except ValueError as fault:
        wrong(token.letters[places[0]].at, str(fault))
    return Criterion(CriterionKind(name), (Word(sign, at=token.at, second=Word(value, at=token.at)),), token.at)


def _all_kinds() -> str:
    return ", ".join(BEGINNINGS)


def _values(kind: CriterionKind, letters: tuple[Letter, ...], at: int) -> tuple[Word, ...]:
    found: list[Word] = []
    comma: tuple[Letter, ...] = (Letter(",", True, at),)
    while comma:
        one, comma, letters = _split(letters, ",")
        if not one:
            wrong(comma[0].at if comma else at, f"a value of {kind}: is missing; write {kind}:VALUE")
        word = _word(kind, one)
        if word.second is None and kind is CriterionKind.LABEL and found and found[-1].second is not None:
            word = Word(found[-1].text, found[-1].glob, word.at, word)  # zone=a,b: both are values of zone
        found.append(word)
    return tuple(found)


def _word(kind: CriterionKind, letters: tuple[Letter, ...]) -> Word:
    separator = {CriterionKind.LABEL: "=", CriterionKind.NAME: "@"}.get(kind)
    first, divided, rest = _split(letters, separator) if separator else (letters, (), ())
    if divided and (not first or not (rest or kind is CriterionKind.LABEL)):
        wrong(
            letters[0].at,
            "write ROLE@FQDN; a * on either side means any"
            if kind is CriterionKind.NAME
            else "the key is missing; write label:KEY=VALUE",
        )
    word = _plain(first, letters[0].at, _plain(rest, divided[0].at + 1) if divided else None)
    known = _FIXED.get(kind)
    if known is not None:
        text = word.text.upper() if kind is CriterionKind.STATE else word.text.lower()
        if word.glob is not None or text not in known:
            near = did_you_mean(text, known) or f"; there is: {', '.join(known)}"
            what = (
                f"no {kind} is called {word.text!r}"
                if kind is CriterionKind.STATE
                else f"{kind}: is never {word.text!r}"
            )
            wrong(word.at, f"{what}{near}")
        return Word(text, at=word.at)
    return word


def _plain(letters: tuple[Letter, ...], at: int, second: Word | None = None) -> Word:
    text = "".join(letter.text for letter in letters)
    if not any(letter.plain and letter.text in _SPECIAL for letter in letters):
        return Word(text, at=at, second=second)
    _refuse_open(letters)
    glob = "".join(
        letter.text if letter.plain or letter.text not in _SPECIAL else f"[{letter.text}]" for letter in letters
    )
    return Word(text, glob, at, second)


def _refuse_open(letters: tuple[Letter, ...]) -> None:
    """Refuse a set of letters that is not closed: it would mean a bracket, which is hardly intended."""
    closes = 0
    for place, letter in enumerate(letters):
        if place < closes or not letter.plain or letter.text != "[":
            continue
        first = place + 1 + (letters[place + 1 : place + 2] != () and letters[place + 1].text == "!")
        ends = [at for at in range(first + 1, len(letters)) if letters[at].plain and letters[at].text == "]"]
        if not ends:
            wrong(letter.at, "this [ is not closed; in quotes it stands for itself")
        closes = ends[0] + 1


def _split(
    letters: tuple[Letter, ...], separator: str
) -> tuple[tuple[Letter, ...], tuple[Letter, ...], tuple[Letter, ...]]:
    """As str.partition, at a separator that is not quoted."""
    for place, letter in enumerate(letters):
        if letter.plain and letter.text == separator:
            return letters[:place], letters[place : place + 1], letters[place + 1 :]
    return letters, (), ()


def _refuse_two_of_one(parts: Iterable[Expression]) -> None:
    """A noderole has one role and one state: two of them beside one another would mean nothing, ever."""
    seen: dict[CriterionKind, set[str]] = {}
    for part in parts:
        if not isinstance(part, Criterion) or part.kind not in (CriterionKind.ROLE, CriterionKind.STATE):
            continue
        texts = {word.text for word in part.values}
        if any(word.glob is not None for word in part.values):
            continue
        before = seen.setdefault(part.kind, texts)
        if before.isdisjoint(texts):
            one, other = (f"{part.kind}:{min(each)}" for each in (before, texts))
            wrong(
                part.at,
                f"no noderole is both {one} and {other}; write {one} or {other}; or, of a node with one of each,"
                f" has({one}) has({other})",
            )


def wrong(at: int, why: str) -> NoReturn:
    """Raises Invalid; ``at``: the place in the selector, from 1."""
    raise Invalid(f"selector, character {at}: {why}")
