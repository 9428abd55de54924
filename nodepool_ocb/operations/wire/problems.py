"""Errors as problem objects (RFC 9457), so that a client raises the exception that the server raised.

``error`` is the name of its class in ``errors.py``. For a class of another module it is the nearest base class there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb import errors
from nodepool_ocb.errors import OcbError, Unreadable

KINDS: Final[Mapping[str, type[OcbError]]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OcbError)
}

#: The HTTP status for an error of a class, or of the nearest base class with an entry.
STATUS: Final[Mapping[type[OcbError], int]] = {
    OcbError: 500,
    errors.Invalid: 422,
    errors.Ambiguous: 400,
    errors.TooLarge: 413,
    errors.Unreadable: 409,  # the data of the cluster are at fault, not the call
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Stale: 412,
    errors.VersionDiffers: 412,
    errors.VersionLacking: 428,
    errors.TimedOut: 504,
    errors.InError: 424,
    errors.Unavailable: 503,
    errors.TooMany: 429,
    errors.Denied: 403,
    errors.Unauthorized: 401,
    errors.NoCluster: 421,
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"kind": "type"}):
    """An error. The fields after ``error`` are attributes of its class."""

    kind: str = "about:blank"
    code: str  # the class in small letters: not-found
    status: int
    detail: str
    hint: str | None = None  # the next step, if it stands not in the detail
    error: str = "OcbError"
    problems: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    path: str | msgspec.UnsetType = msgspec.UNSET
    absent: bool | msgspec.UnsetType = msgspec.UNSET
    wait_seconds: float | msgspec.UnsetType = msgspec.UNSET


FACTS: Final = ("problems", "path", "absent", "wait_seconds")


def problem_of(error: OcbError) -> Problem:
    """The problem object of an error.

    >>> problem_of(errors.NotFound("there is no node n1"))
    Problem(kind='about:blank', code='not-found', status=404, detail='there is no node n1', hint=None, error='NotFound', \
problems=UNSET, path=UNSET, absent=UNSET, wait_seconds=UNSET)
    """
    lineage = [each for each in type(error).__mro__ if issubclass(each, OcbError)]
    kind = next(each for each in lineage if KINDS.get(each.__name__) is each)
    facts: dict[str, Any] = {name: value for name, value in vars(error).items() if name in FACTS}
    if "problems" in facts:
        facts["problems"] = errors.bounded(facts["problems"])
    return Problem(
        code=_code(kind.__name__),
        status=next(STATUS[each] for each in lineage if each in STATUS),
        detail=str(error),
        hint=f"nodepool-ocb record show {error.path}" if isinstance(error, Unreadable) else None,
        error=kind.__name__,
        **facts,
    )


def error_of(problem: Problem) -> OcbError:
    """The error that a problem object stands for; OcbError for a class of a later version.

    >>> error_of(problem_of(errors.NameTaken("the name is taken", 5.0))).wait_seconds
    5.0
    """
    kind = KINDS.get(problem.error, OcbError)
    made = kind.__new__(kind, problem.detail)
    vars(made).update({name: value for name in FACTS if (value := getattr(problem, name)) is not msgspec.UNSET})
    return made


def _code(name: str) -> str:
    """
    >>> _code("NotFound")
    'not-found'
    """
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("-")
