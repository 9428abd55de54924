"""The engine of the package ``yaql`` as conditions need it: its bounds, its functions and ours, and its parser.

The engine belongs to one thread: its parser has a state.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.conditions.faults import at, check_size, illegal
from nodepool_ocb.tasks.conditions.yaql import functions

MOST_BYTES: Final = 4096  # of an expression
MOST_STEPS: Final = 10_000  # of an iterator, and elements of a collection
MOST_MEMORY: Final = 100 * 2**20  # bytes
OPTIONS: Final = {
    "yaql.limitIterators": MOST_STEPS,
    "yaql.memoryQuota": MOST_MEMORY,
    "yaql.convertSetsToLists": True,
    "yaql.convertTuplesToLists": True,
}
VARIABLES: Final = ("$", "$%new", "$%old", "$node", "$common")
#: Functions that make variables, of any name.
MAKE_VARIABLES: Final = frozenset({"let", "unpack", "with", "search", "searchAll", "replaceBy"})
#: Functions that depend on chance.
LEFT_OUT: Final = ("random",)


def check(text: str) -> None:
    """Raises Invalid with the fault and its place in the text; or with the package that is not installed."""
    nodes = list(_nodes(statement(text).expression))
    called = {node.name for node in nodes if type(node).__name__ == "Function"}
    if "def" not in called:  # which makes functions
        for name in sorted(called):
            _check_function(name)
    if not called & MAKE_VARIABLES:
        for name in sorted({node.path.value for node in nodes if type(node).__name__ == "GetContextValue"}):
            _check_variable(name)


def statement(text: str) -> Any:
    """The expression as ``yaql`` evaluates it. Raises Invalid."""
    check_size(text, MOST_BYTES)
    exceptions = package("language.exceptions")
    try:
        return engine()(text)
    except exceptions.YaqlLexicalException as error:
        raise illegal(text, error.position) from error
    except exceptions.YaqlGrammarException as error:
        if error.position is None:
            raise at(len(text), "a value was expected, and the expression ends; write it") from error
        raise at(error.position, f"`{error.value}` has no meaning here; correct it there") from error
    except (ValueError, exceptions.YaqlException) as error:
        raise Invalid(f"{error}; correct the expression") from error


@cache
def package(module: str = "") -> Any:
    """The package ``yaql``, or a module of it. Raises Invalid if it is not installed."""
    importlib.import_module("collections.abc")  # which it takes for granted
    try:
        return importlib.import_module(f"yaql.{module}" if module else "yaql")
    except ModuleNotFoundError as error:
        raise Invalid(
            "an expression in YAQL needs the Python package yaql, which is not installed;"
            f" install it: {sys.prefix}/bin/pip install 'yaql>=3.0'"
        ) from error


@cache
def engine() -> Any:
    """Parser and options; it knows ``$%new`` and ``$%old``, which are not YAQL's."""
    lexer = type("Lexer", (package("language.lexer").Lexer,), {"t_DOLLAR": r"\$(%(new|old)\b|\w*)"})
    bare = package("language.factory").YaqlFactory
    factory = type("Factory", (bare,), {"_create_lexer": lambda _, operators: lexer(operators)})
    return factory().create(OPTIONS)


@cache
def context() -> Any:
    """Every function that an expression may call."""
    made = package().create_context(datetime=False, yaqlized=False)
    for layer in _layers(made):
        for name in LEFT_OUT:
            for function in tuple(layer.get_functions(name)[0]):
                layer.delete_function(function)
    functions.register(made, package("language.specs"), package("language.yaqltypes"))
    return made


def _layers(context: Any) -> Iterator[Any]:
    while context is not None:
        yield context
        context = context.parent


def _nodes(root: Any) -> Iterator[Any]:
    """Each node of an expression's tree, of which there may be thousands in a line."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += getattr(node, "args", ())
        waiting += [getattr(node, name) for name in ("expr", "source", "destination") if hasattr(node, name)]


def _check_function(name: str) -> None:
    if not any(context().collect_functions(name)):
        known = [known for layer in _layers(context()) for known in layer._functions if layer.get_functions(known)[0]]
        near = did_you_mean(name, known)
        raise Invalid(f"there is no function `{name}`{near or '; known are those of YAQL and of docs/tasks.md'}")


def _check_variable(name: str) -> None:
    if name not in VARIABLES and not name[1:].isdecimal():
        raise Invalid(f"there is no `{name}`{did_you_mean(name, VARIABLES) or '; known are ' + ' '.join(VARIABLES)}")
