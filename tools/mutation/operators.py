"""The mutations of a piece of code: the operators of mutmut, and additional ones.

mutmut changes operators, numbers, names, arguments, assignments and the arms of a condition. The additional
ones: a removed statement, a condition that always or never holds, one side of an operation, a missing element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import libcst as cst
from mutmut.mutation import mutators

Operator: TypeAlias = Callable[[Any], Iterator[cst.CSTNode]]

#: Calls that the types need, and no behaviour.
TYPES_ONLY: Final = frozenset({"cast", "isinstance", "issubclass", "len", "NewType", "TypeVar"})


def mutated(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The replacements of this one piece; pieces in it have their own turn."""
    for kind, operator in OPERATORS:
        if isinstance(node, kind):
            yield from operator(node)


def untouched(node: cst.CSTNode) -> bool:
    """Whether nothing in it is changed: types, imports, decorators and docstrings, which no test can tell apart."""
    match node:
        case cst.Annotation() | cst.Decorator() | cst.Import() | cst.ImportFrom():
            return True
        case cst.AnnAssign(annotation=cst.Annotation(annotation=cst.Name("TypeAlias"))):
            return True
        case cst.If(test=cst.Name("TYPE_CHECKING")):
            return True
        case cst.Call(func=cst.Name(name)):
            return name in TYPES_ONLY
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
            return True
    return False


def text(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    """Another text, once: which letters are large is no change of its own."""
    yield from list(mutators.operator_string(node))[:1]


def statement_gone(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """A call or a yield that does not happen."""
    for statement in node.body:
        if isinstance(statement, cst.Expr) and not untouched(statement):
            yield node.with_changes(body=[cst.Pass() if each is statement else each for each in node.body])


def condition_settled(node: cst.If | cst.CompIf) -> Iterator[cst.CSTNode]:
    """Always so; never so."""
    yield node.with_changes(test=cst.Name("True"))
    if isinstance(node, cst.If):
        yield node.with_changes(test=cst.Name("False"))


def one_side(node: cst.BooleanOperation | cst.BinaryOperation) -> Iterator[cst.CSTNode]:
    """One of two that are put together, alone."""
    if isinstance(node.operator, cst.And | cst.Or | cst.BitOr | cst.BitAnd | cst.Add):
        for side in (node.left, node.right):
            yield side.with_changes(lpar=[*node.lpar, *side.lpar], rpar=[*side.rpar, *node.rpar])


def element_gone(node: cst.Tuple | cst.List | cst.Set | cst.Dict) -> Iterator[cst.CSTNode]:
    """One element fewer, of two or more."""
    elements: Sequence[cst.CSTNode] = node.elements
    if len(elements) > 2 or (len(elements) == 2 and not isinstance(node, cst.Tuple)):
        for gone in elements:
            yield node.with_changes(elements=[each for each in elements if each is not gone])


#: Which pieces mutmut's two operators for any piece look at, so that they are asked about no others; another text is our own.
_NARROWER: Final[dict[Any, Any]] = {
    mutators.operator_string: (),
    mutators.operator_swap_op: (
        *(cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.ComparisonTarget, cst.AugAssign),
    ),
    mutators.operator_keywords: (cst.Is, cst.IsNot, cst.In, cst.NotIn, cst.Break, cst.Continue),
}

OPERATORS: Final[Sequence[tuple[Any, Operator]]] = [
    *((_NARROWER.get(operator, kind), operator) for kind, operator in mutators.mutation_operators),
    (cst.BaseString, text),
    (cst.SimpleStatementLine, statement_gone),
    (cst.If, condition_settled),
    (cst.CompIf, condition_settled),
    (cst.BooleanOperation, one_side),
    (cst.BinaryOperation, one_side),
    (cst.Tuple, element_gone),
    (cst.List, element_gone),
    (cst.Set, element_gone),
    (cst.Dict, element_gone),
]
