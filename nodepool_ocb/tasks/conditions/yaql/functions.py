"""The functions of conditions that compare a node's facts with those of the task's last good run on it.

An argument is an expression, evaluated on the new facts and on the old ones: ``changed($.plugins)``. Where it fails on the old
facts, there was nothing before, so it counts as changed. Without an argument it is all facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.tasks.yamltext import dumped


class Undefined:
    """The value of an expression that fails on the old facts."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = Undefined()


def register(context: Any, specs: Any, types: Any) -> None:
    """Add them to a context of ``yaql``; its modules ``specs`` and ``yaqltypes`` declare the arguments of a function."""
    expression = specs.parameter("expression", types.Lambda())
    expressions = specs.parameter("expressions", types.Lambda())
    facts = specs.inject("facts", types.Context())
    plain = specs.inject("plain", types.Delegate("#finalize"))
    value = specs.parameter("value", nullable=True)

    def add(name: str, function: Callable[..., Any], *about: Callable[[Any], Any]) -> None:
        for decorate in (*about, specs.name(name)):
            function = decorate(function)
        context.register_function(function)

    for name, comparison in COMPARISONS.items():
        add(name, _comparing(comparison), expression, facts, plain)
    for name, combine in {"changedAny": any, "changedAll": all}.items():
        add(name, _comparing_each(combine), expressions, facts, plain)
    for name, text in {"toYaml": dumped, "toJson": _json}.items():
        add(name, _writing(text), value, plain, specs.extension_method)
    add("isUndef", lambda value: value is UNDEFINED, value, specs.extension_method)


_Plain = Callable[[Any], Any]  # of a value of yaql its JSON


def _comparing(comparison: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compare(facts: Any, plain: _Plain, expression: Any = None) -> Any:
        return comparison(_on_new(expression, facts, plain), _on_old(expression, facts, plain))

    return compare


def _comparing_each(combine: Callable[[Any], bool]) -> Callable[..., bool]:
    def compare(facts: Any, plain: _Plain, *expressions: Any) -> bool:
        each = expressions or (None,)
        return combine(_changed(_on_new(one, facts, plain), _on_old(one, facts, plain)) for one in each)

    return compare


def _writing(text: Callable[[Any], str]) -> Callable[..., str]:
    def write(value: Any, plain: _Plain) -> str:
        return text(plain(value))

    return write


def _on_new(expression: Any, facts: Any, plain: _Plain) -> Any:
    return plain(facts["$%new"] if expression is None else expression(facts["$%new"]))


def _on_old(expression: Any, facts: Any, plain: _Plain) -> Any:
    try:
        return plain(facts["$%old"] if expression is None else expression(facts["$%old"]))
    except Exception:  # any fact that is missing there
        return UNDEFINED


def _changed(new: Any, old: Any) -> bool:
    return bool(old is UNDEFINED or new != old)


def _added(new: Any, old: Any) -> Any:
    """Of a list the items, of a mapping the members that were not there; of another value itself, if there was none."""
    if old is UNDEFINED:
        return new
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return {key: value for key, value in new.items() if key not in old}
    if isinstance(new, list) and isinstance(old, list):
        return [item for item in new if item not in old]
    return new if old is None else None


def _deleted(new: Any, old: Any) -> Any:
    return None if old is UNDEFINED else _added(old, new)


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "new": lambda new, _: new,
    "old": lambda _, old: old,
    "changed": _changed,
    "added": _added,
    "deleted": _deleted,
}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
