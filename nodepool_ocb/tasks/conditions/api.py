"""The expressions over ``api`` of Fuel's design, in the syntax of jinja2's expressions.

jinja2's parser makes a tree of an expression. That tree is not run but walked, and a node that is not listed here is refused.

Known are ``api.cluster_status``, ``api.nodes_count()`` and two functions for roles. ``api.role_in_deployment('ceph-osd')``: a
node of this run has the role. ``api.role_in_cluster('ceph-osd')``: a node of the deployment has it. Known are also comparisons,
``and or not in``, brackets, whole numbers and decimals, texts, lists, true, false and none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import jinja2
from jinja2 import nodes
from jinja2.parser import Parser

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions.faults import at, check_nesting, check_size, check_words, illegal
from nodepool_ocb.tasks.conditions.models import Models
from nodepool_ocb.tasks.conditions.tree import BinaryOperation, Constant, FactReference, Negation, Node, Several

ATTRIBUTES: Final = ("cluster_status",)
METHODS: Final = {"nodes_count": 0, "role_in_deployment": 1, "role_in_cluster": 1}  # name → arguments
WORDS: Final = (
    "api",
    *ATTRIBUTES,
    *METHODS,
    "and",
    "or",
    "not",
    "in",
    "true",
    "false",
    "none",
    "True",
    "False",
    "None",
)
#: Arguments of a method → the next step for a wrong call.
_BRACKETS: Final = (
    "is called with brackets; write api.{0}()",
    "needs the name of a role; write, for example, api.{0}('controller')",
)
SIGNS: Final = ("(", ")", "[", "]", ",", ".", "==", "!=", "<", "<=", ">", ">=")
COMPARISONS: Final = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "lteq": "<=",
    "gt": ">",
    "gteq": ">=",
    "in": "in",
    "notin": "not in",
}


class _Word(NamedTuple):
    kind: str
    text: str
    position: int


def parse(text: str) -> Node:
    """Raises Invalid, with the place in the text."""
    check_size(text)
    _check_words(text)
    try:
        parser = Parser(_environment(), text, state="variable")
        expression = parser.parse_expression()
        if not parser.stream.eos:
            raise Invalid(
                f"`{parser.stream.current.value}` comes where and, or, a comparison or the end was expected; correct it there"
            )
    except jinja2.TemplateSyntaxError as error:
        raise Invalid(
            f"{error.message}; compare this with api.cluster_status == 'new' and api.nodes_count() > 1"
        ) from error
    return _node(expression)


def lookup(fact: FactReference, models: Models) -> Json:
    """The path is the name after ``api.``, and the argument."""
    match fact.path:
        case ("nodes_count",):
            return models.nodes_count
        case ("role_in_deployment", role):
            return role in models.roles_of_run
        case ("role_in_cluster", role):
            return role in models.roles_of_cluster
    return models.cluster.get("status")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment()  # parses, and nothing else


def _check_words(text: str) -> None:
    """Refuse unknown words and signs, and too deep nesting, before the parser, which is recursive."""
    depth = negations = 0
    for count, word in enumerate(_words(text), 1):
        check_words(count, word.position)
        if word.kind == "operator" and word.text not in SIGNS:
            raise at(word.position, f"`{word.text}` has no meaning here; known are {' '.join(SIGNS)}")
        if word.kind == "name" and word.text not in WORDS:
            raise at(
                word.position,
                f"`{word.text}` is not known{did_you_mean(word.text, WORDS) or '; known are ' + _known()}",
            )
        depth += (word.text in ("(", "[")) - (word.text in (")", "]"))
        negations = negations + 1 if word.text == "not" else 0
        check_nesting(max(depth, negations), word.position)


def _words(text: str) -> Iterator[_Word]:
    if "\r" in text:
        raise at(text.index("\r"), "a carriage return has no meaning here; leave it out")
    position = 0
    try:
        for _, kind, word in _environment().lexer.tokeniter(text, None, None, "variable"):
            if kind != "whitespace":
                yield _Word(kind, word, position)
            position += len(word)
    except jinja2.TemplateSyntaxError as error:
        raise illegal(text, min(position, len(text) - 1)) from error


def _known() -> str:
    return ", ".join((*(f"api.{name}" for name in ATTRIBUTES), *(f"api.{name}()" for name in METHODS)))


def _node(node: nodes.Node) -> Node:
    match node:
        case nodes.Const(value=value) if value is None or isinstance(value, bool | int | float | str):
            return Constant(value)
        case nodes.List(items=items) | nodes.Tuple(items=items):
            return Several(tuple(map(_node, items)))
        case nodes.Not():
            return Negation(_node(node.node))
        case nodes.And():
            return BinaryOperation("and", _node(node.left), _node(node.right))
        case nodes.Or():
            return BinaryOperation("or", _node(node.left), _node(node.right))
        case nodes.Compare():
            return _comparison(node)
        case nodes.Getattr() | nodes.Call():
            return _fact(node)
        case nodes.Name(name=name):
            raise Invalid(f"`{name}` alone is no value; known are {_known()}")
    raise Invalid(f"{type(node).__name__.lower()} has no meaning here; known are {_known()}")


def _comparison(node: nodes.Compare) -> Node:
    """``1 < x < 3`` is ``1 < x and x < 3``."""
    left = _node(node.expr)
    whole: Node | None = None
    for operand in node.ops:
        right = _node(operand.expr)
        pair = BinaryOperation(COMPARISONS[operand.op], left, right)
        whole = pair if whole is None else BinaryOperation("and", whole, pair)
        left = right
    assert whole is not None, "a comparison has an operator"
    return whole


def _fact(node: nodes.Getattr | nodes.Call) -> FactReference:
    called = node.node if isinstance(node, nodes.Call) else node
    if not (isinstance(called, nodes.Getattr) and isinstance(called.node, nodes.Name) and called.node.name == "api"):
        raise Invalid(f"only names of api have a value here; known are {_known()}")
    name = called.attr
    if isinstance(node, nodes.Call) and name in METHODS:
        return _call(name, node)
    if isinstance(node, nodes.Getattr) and name in ATTRIBUTES:
        return FactReference(f"api.{name}", (name,))
    if name in METHODS:
        raise Invalid(f"api.{name} {_BRACKETS[METHODS[name]].format(name)}")
    if name in ATTRIBUTES:
        raise Invalid(f"api.{name} is a value, not a call; write it without ()")
    raise Invalid(f"api.{name} is not known; known are {_known()}")


def _call(name: str, node: nodes.Call) -> FactReference:
    arguments = [each.value for each in node.args if isinstance(each, nodes.Const) and isinstance(each.value, str)]
    others = node.kwargs or node.dyn_args or node.dyn_kwargs or len(arguments) != len(node.args)
    if others or len(arguments) != METHODS[name]:
        wanted = _BRACKETS[1].format(name) if METHODS[name] else f"takes no arguments; write api.{name}()"
        raise Invalid(f"api.{name} {wanted}")
    return FactReference(f"api.{name}({', '.join(map(repr, arguments))})", (name, *arguments))
