"""The error for an answer that is no success. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.errors import (
    Conflict,
    Denied,
    Invalid,
    NoCluster,
    NotFound,
    OcbError,
    Stale,
    TimedOut,
    TooLarge,
    Unavailable,
)
from nodepool_ocb.operations.wire.problems import KINDS, Problem, error_of

#: The error of an answer that names none: that of a proxy, or of a server of another version.
BY_STATUS: Final[Mapping[int, type[OcbError]]] = {
    400: Invalid,
    401: Denied,
    403: Denied,
    404: NotFound,
    408: TimedOut,
    409: Conflict,
    412: Stale,
    413: TooLarge,
    421: NoCluster,
    422: Invalid,
    428: Conflict,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: TimedOut,
}


def refusal(url: str, status: int, reason: str, body: bytes, media_type: str) -> OcbError:
    """The error of an answer with this status.

    >>> refusal("https://ocb", 502, "Bad Gateway", b"<html>", "text/html")
    Unavailable('https://ocb answered 502 Bad Gateway')
    """
    problem = _problem(body) if media_type == "application/problem+json" else None
    if problem is not None and problem.error in KINDS and problem.error != OcbError.__name__:
        found = error_of(problem)
        return _advised(url, found) if status == 401 else found
    detail = problem.detail if problem is not None else f"{url} answered {status} {reason}".strip()
    kind = BY_STATUS.get(status, OcbError)
    return _advised(url, kind(detail)) if status == 401 else kind(detail)


def _advised(url: str, error: OcbError) -> OcbError:
    """A call without a valid token, with the next step."""
    return (type(error) if isinstance(error, Denied) else Denied)(
        f"{error}; to store a token: nodepool-ocb login {url}"
    )


def _problem(body: bytes) -> Problem | None:
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeError):
        return None
