"""Each expression is evaluated once for each set of facts that it reads, on any number of nodes with these facts.

For the settings language and ``api``, with facts that are the same for all nodes, that is once. An expression of YAQL returns
the members that it read. It is evaluated again only for a node on which one of these differs. It may loop, but has neither
clock nor chance, so the same facts give the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions.languages import evaluate, parse
from nodepool_ocb.tasks.conditions.models import Models
from nodepool_ocb.tasks.conditions.tree import ConditionResult, ParsedCondition
from nodepool_ocb.tasks.conditions.yaql.evaluation import Evaluation, Evaluator, YaqlQuery, scopes
from nodepool_ocb.tasks.tasklist import Expression

MOST_DIGESTS: Final = 100_000  # kept; then they are made anew

_encode = msgspec.json.Encoder(order="deterministic").encode
_T = TypeVar("_T")
_Reads: TypeAlias = tuple[tuple[str, tuple[str, ...] | None], ...]  # (scope, members)


class Memory:
    """The answers so far. ``evaluated`` counts evaluations."""

    def __init__(self, models: Models, evaluator: Evaluator | None) -> None:
        self._models = models
        self._evaluator = evaluator
        self._parsed: dict[Expression, ParsedCondition | Invalid] = {}
        self._verdicts: dict[Expression, ConditionResult | Invalid] = {}
        self._reads: dict[str, dict[_Reads, None]] = {}  # text → the sets of facts that it read so far, in order
        self._answers: dict[tuple[str, _Reads, bytes], Evaluation] = {}
        self._digests = _Digests()
        self.evaluated = 0

    def parsed(self, expression: Expression) -> ParsedCondition:
        """Raises Invalid."""
        if expression not in self._parsed:
            try:
                self._parsed[expression] = parse(expression)
            except Invalid as fault:
                self._parsed[expression] = fault
        return _or_raise(self._parsed[expression])

    def verdict(self, expression: Expression) -> ConditionResult:
        """The verdict of a condition in the settings language or ``api``. Raises Invalid if it fails on its facts."""
        if expression not in self._verdicts:
            parsed = self.parsed(expression)
            self.evaluated += 1
            try:
                self._verdicts[expression] = evaluate(parsed, self._models)
            except Invalid as fault:
                self._verdicts[expression] = fault
        return _or_raise(self._verdicts[expression])

    def answer(self, question: YaqlQuery) -> Evaluation:
        """The answer of an expression in YAQL."""
        known = self._known(question, scopes(question))
        if known is not None:
            return known
        if self._evaluator is None:
            raise Invalid(
                "an expression in YAQL is evaluated by a command that plans or runs a task list alone;"
                " see: nodepool-ocb tasks plan"
            )
        self.evaluated += 1
        answer = self._evaluator(question)
        reads: _Reads = tuple(sorted(answer.reads.items()))  # of one that was ended none: it is not tried again
        self._reads.setdefault(question.text, {})[reads] = None
        self._answers[question.text, reads, self._digest(scopes(question), reads)] = answer
        return answer

    def _known(self, question: YaqlQuery, facts: Mapping[str, Mapping[str, Json]]) -> Evaluation | None:
        for reads in self._reads.get(question.text, ()):
            answer = self._answers.get((question.text, reads, self._digest(facts, reads)))
            if answer is not None:
                return answer
        return None

    def _digest(self, facts: Mapping[str, Mapping[str, Json]], reads: _Reads) -> bytes:
        digest = hashlib.sha256()
        for scope, members in reads:
            for name in sorted(facts[scope]) if members is None else members:
                digest.update(self._digests.of(name))
                digest.update(self._digests.of(facts[scope][name]) if name in facts[scope] else b"-")
            digest.update(b"|")
        return digest.digest()


class _Digests:
    """Digests of values that do not change. A value that all nodes share is one object, and is encoded once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Json, bytes]] = {}  # id → the value, which keeps it from being another's

    def of(self, value: Json) -> bytes:
        if not isinstance(value, list | dict):
            return hashlib.sha256(_encode(value)).digest()
        if id(value) not in self._known:
            if len(self._known) >= MOST_DIGESTS:
                self._known.clear()
            self._known[id(value)] = value, hashlib.sha256(_encode(value)).digest()
        return self._known[id(value)][1]


def _or_raise(result: _T | Invalid) -> _T:
    if isinstance(result, Invalid):
        raise result
    return result
