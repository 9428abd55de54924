"""The tree of an expression of the settings language or of ``api``, and its value on facts.

``and`` and ``or`` give one of their operands, and read the second only if it matters. ``==`` compares as Python does. ``in``
looks in lists, mappings and texts. A tree has no more nodes than its text has words, and no loops.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import Expression

MOST_SHOWN: Final = 60  # letters of a value in a sentence


class Constant(msgspec.Struct, frozen=True):
    """A number, a text, true, false or null."""

    value: Json


class Several(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Node, ...]


class FactReference(msgspec.Struct, frozen=True):
    """A fact: the words that name it, and how it was written."""

    text: str
    path: tuple[str, ...]
    strict: bool = True  # where nothing is there: an error, or null


class Negation(msgspec.Struct, frozen=True):
    """The opposite."""

    of: Node


class BinaryOperation(msgspec.Struct, frozen=True):
    """Two operands and the operator between them."""

    word: str
    left: Node
    right: Node


Node: TypeAlias = Constant | Several | FactReference | Negation | BinaryOperation
Lookup: TypeAlias = Callable[[FactReference], Json]  # raises Invalid

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}


class ParsedCondition(msgspec.Struct, frozen=True):
    """An expression that can be evaluated."""

    expression: Expression
    tree: Node | None  # None: it is YAQL; its tree stays in the process that evaluates it


class ConditionResult(msgspec.Struct, frozen=True):
    """The value of an expression, and the values that it read: each as written, with its value."""

    text: str
    value: Json
    reads: tuple[tuple[str, Json], ...] = ()

    @property
    def holds(self) -> bool:
        return bool(self.value)

    def __str__(self) -> str:
        """``false: settings:a.b == true, where settings:a.b is false``."""
        where = " and ".join(f"{text} is {shown(value)}" for text, value in self.reads)
        return (
            f"{'true' if self.holds else 'false'}: {' '.join(self.text.split())}{', where ' + where if where else ''}"
        )


def verdict(parsed: ParsedCondition, lookup: Lookup) -> ConditionResult:
    """Raises Invalid if a fact is missing or two values cannot be compared."""
    reads: dict[str, Json] = {}

    def read(fact: FactReference) -> Json:
        reads[fact.text] = value = lookup(fact)
        return value

    assert parsed.tree is not None, "YAQL is evaluated elsewhere"
    value = _value(parsed.tree, read)
    return ConditionResult(parsed.expression.text, value, tuple(reads.items()))


def _value(node: Node, read: Lookup) -> Json:
    match node:
        case Constant(value):
            return value
        case Several(items):
            return [_value(item, read) for item in items]
        case FactReference():
            return read(node)
        case Negation(of):
            return not _value(of, read)
        case BinaryOperation("and", left, right):
            return _value(left, read) and _value(right, read)
        case BinaryOperation("or", left, right):
            return _value(left, read) or _value(right, read)
        case BinaryOperation(word, left, right):
            return _compared(word, _value(left, read), _value(right, read))


def _compared(word: str, left: Json, right: Json) -> bool:
    try:
        return COMPARISONS[word](left, right)
    except TypeError:
        raise Invalid(f"{shown(left)} {word} {shown(right)} has no meaning; compare values of one kind") from None


def shown(value: Json) -> str:
    """A value as JSON, cut."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
