"""Names in task lists: a name, or a pattern of names between slashes.

A pattern is in Python's syntax, as Fuel's were, and matches whole names; with ``compat_prefix`` the beginnings of names, as
Fuel had it. One that a name could be tried against in more than WAYS ways is refused, so none takes longer than 100 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants as ops  # type: ignore[attr-defined]  # no public module has the parts of an expression
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, TypeAlias

from nodepool_ocb.errors import Invalid

LONGEST: Final = 63  # of a name, in letters; a longer one matches no pattern
SIZE: Final = 500  # of an expression, in letters
MATCHED: Final = 2_000_000  # names with which patterns are compared: some seconds
WAYS: Final = (LONGEST + 1) ** 3  # three times "anything" in a row

Matcher: TypeAlias = Callable[[str], bool]

_ONE_WAY: Final = frozenset({ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN, ops.AT, ops.CATEGORY})
_ODD: Final = re.compile(r"[\^$*+?()\[\]|\\]|\.\*")  # signs of expressions that no name has


def is_pattern(text: str) -> bool:
    """Whether a text stands between slashes.

    >>> is_pattern("/(primary-)?rabbitmq/"), is_pattern("rabbitmq"), is_pattern("/")
    (True, False, False)
    """
    return len(text) > 1 and text.startswith("/") and text.endswith("/")


def lacks_slashes(text: str) -> bool:
    """Whether a text is probably a pattern without its slashes."""
    return text != "*" and not is_pattern(text) and _ODD.search(text) is not None


def fault(text: str) -> str | None:
    """Why a text between slashes is no valid pattern; None if it is one, or is a name."""
    if not is_pattern(text):
        return None
    if len(text) > SIZE:
        return f"has more than {SIZE} letters; list the names instead"
    try:
        ways = _ways(parser.parse(text[1:-1])) if len(text) > 2 else 0
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}; correct it"
    except _Unknown as error:
        return f"holds {error}, which patterns of names do not have; list the names instead"
    if ways == 0:
        return "is empty; /.*/ stands for every name"
    if ways > WAYS:
        return (
            "may be matched in too many ways; use at most three of * and +, and none of them around another or around |"
        )
    return None


@lru_cache(maxsize=4096)
def matcher(text: str, compat_prefix: bool = False) -> Matcher:
    """Whether a name is meant by a name or by a /pattern/. Raises Invalid for a pattern with a ``fault``.

    >>> matcher("/(primary-)?cluster/")("primary-cluster"), matcher("/cluster/")("cluster-haproxy")
    (True, False)
    >>> matcher("/cluster/", compat_prefix=True)("cluster-haproxy"), matcher("cluster")("cluster-haproxy")
    (True, False)
    """
    if not is_pattern(text):
        return text.__eq__
    if (wrong := fault(text)) is not None:
        raise Invalid(f"{text} {wrong}")
    found = re.compile(text[1:-1])
    match = found.match if compat_prefix else found.fullmatch
    return lambda name: len(name) <= LONGEST and match(name) is not None


def matching(text: str, names: Iterable[str], compat_prefix: bool = False) -> list[str]:
    """The names that match, in their order.

    >>> matching("/ceph-.*/", ["ceph-mon", "cinder", "ceph-osd"])
    ['ceph-mon', 'ceph-osd']
    """
    return list(filter(matcher(text, compat_prefix), names))


def too_many(patterns: int, names: int) -> bool:
    """Whether it takes too long to compare each of so many patterns with each of so many names.

    >>> too_many(200, 10_000), too_many(201, 10_000)
    (False, True)
    """
    return patterns * names > MATCHED


class _Unknown(Exception):
    """A part of an expression that is not taken."""


def _ways(expression: Any) -> int:
    """In how many ways a name is tried at most, up to a little above WAYS."""
    ways = 1
    for op, value in expression:
        ways = min(ways * _ways_of(op, value), WAYS + 1)
    return ways


def _ways_of(op: Any, value: Any) -> int:
    if op in _ONE_WAY:
        return 1
    if op is ops.SUBPATTERN:
        return _ways(value[3])
    if op is ops.BRANCH:
        return sum(map(_ways, value[1]))
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        return _ways_of_repeat(*value)
    raise _Unknown(str(op).lower().replace("_", " "))


def _ways_of_repeat(least: int, most: int, body: Any) -> int:
    """The number of ways in which a repetition matches: a body with several ways, or without length, multiplies them."""
    least, most = min(least, LONGEST), min(most, LONGEST)
    ways = _ways(body)
    if ways == 1 and body.getwidth()[0] > 0:
        return most - least + 1
    return min(int(sum(max(ways, 2) ** times for times in range(least, most + 1))), WAYS + 1)
