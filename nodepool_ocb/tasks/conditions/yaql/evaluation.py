"""The value of an expression on facts, and the facts that it read. Only for a process that the kernel bounds: an expression may
run for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions.models import NodeFacts
from nodepool_ocb.tasks.conditions.yaql.engine import context, package, statement
from nodepool_ocb.tasks.conditions.yaql.functions import Undefined

MOST_WORDS: Final = 200  # letters of a fault: values of facts do not belong in it
SCOPES: Final = ("$", "$%old", "$node", "$common")


class YaqlQuery(msgspec.Struct, frozen=True):
    """An expression, and the facts that it is evaluated on."""

    text: str
    facts: NodeFacts = NodeFacts()
    old: NodeFacts = NodeFacts()  # of the task's last good run on the node; empty: none


class Evaluation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an expression, or the reason why it has none; the same for all facts with equal members in ``reads``."""

    value: Json = None
    fault: str | None = None
    reads: Mapping[str, tuple[str, ...] | None] = {}  # scope → members, there or not; None: all of them
    hostile: bool = False  # it did not end by itself, and will not on other facts


Evaluator: TypeAlias = Callable[[YaqlQuery], Evaluation]

_statement = lru_cache(maxsize=1024)(statement)


def scopes(question: YaqlQuery) -> Mapping[str, Mapping[str, Json]]:
    """The value of each variable."""
    return {
        "$": question.facts.whole,
        "$%old": question.old.whole,
        "$node": question.facts.node,
        "$common": question.facts.common,
    }


def prepared(question: YaqlQuery) -> Callable[[], Evaluation]:
    """The evaluation, ready to be called; the text is parsed already. Raises Invalid for a text that cannot be parsed."""
    parsed = _statement(question.text)
    members = {scope: Members(facts) for scope, facts in scopes(question).items()}
    variables = context().create_child_context()
    for scope, facts in members.items():
        variables[scope] = facts
    variables["$%new"] = members["$"]

    def evaluate() -> Evaluation:
        value, fault = _value(parsed, variables)
        return Evaluation(value, fault, {scope: facts.read for scope, facts in members.items() if facts.read != ()})

    return evaluate


class Members(Mapping[str, Any]):
    """Facts, as ``yaql`` takes them, that know which of them were read."""

    def __init__(self, facts: Mapping[str, Json]) -> None:
        self._facts = facts
        self._converted: dict[str, Any] = {}
        self._names: set[str] = set()
        self._whole = False

    @property
    def read(self) -> tuple[str, ...] | None:
        return None if self._whole else tuple(sorted(self._names))

    def __getitem__(self, name: str) -> Any:
        if isinstance(name, str):
            self._names.add(name)
        if name not in self._converted:
            self._converted[name] = package("language.utils").convert_input_data(self._facts[name])
        return self._converted[name]

    def __iter__(self) -> Iterator[str]:
        self._whole = True
        return iter(self._facts)

    def __len__(self) -> int:
        self._whole = True
        return len(self._facts)

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return "facts"


def _value(parsed: Any, variables: Any) -> tuple[Json, str | None]:
    """Or the fault."""
    try:
        value = parsed.evaluate(context=variables)
    except KeyError as error:
        return None, f"there is no {error.args[0]!r} in the facts; write $.get(name) where it may be missing"[
            :MOST_WORDS
        ]
    except MemoryError:
        return None, "it takes more memory than it may; simplify it"
    except RecursionError:
        return None, "it calls itself too often; simplify it"
    except Exception as error:  # any error of yaql and of Python
        return None, f"{_sentence(error)}; correct the expression"
    return (None if isinstance(value, Undefined) else value), None


def _sentence(error: Exception) -> str:
    text = f"{error}" or type(error).__name__
    text = re.sub(r'Unknown function "#property#(\w+)"', r"a value that has no members is asked for its `\1`", text)
    return re.sub(r" for receiver .*", " for such a value", text, flags=re.DOTALL)[:MOST_WORDS]


def check_fault(answer: Evaluation) -> Json:
    """Its value. Raises Invalid if it has none."""
    if answer.fault is not None:
        raise Invalid(answer.fault)
    return answer.value
