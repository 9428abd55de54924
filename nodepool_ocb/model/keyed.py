"""Calls that are carried out one time: those with an idempotency key, and those of saved plans.

The mark of a call is written in its first transaction, so a repeated call writes nothing.
"""

from __future__ import annotations

import hashlib
from typing import Final

from nodepool_ocb.model.records import Record
from nodepool_ocb.model.tokens import Digest

ID_LENGTH: Final = 32  # hexadecimal digits
KEPT_SECONDS: Final = 3600.0  # that a mark stays at least: longer than any repetition of a request
PLAN_KEPT_SECONDS: Final = 90_000.0  # that the mark of a plan stays at least: longer than a plan is valid
_OF_PLAN: Final = "plan-"


class KeyedCall(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``calls/<id>``: a call of the API with an idempotency key, and its outcome; or a saved plan that was carried out."""

    operation: str  # as the table of operations names it
    digest: Digest  # of the operation, its fields and its reason
    ended: bool = False
    outcome: str | None = (
        None  # JSON, as the API wrote it; None while the call runs, and for an outcome that is not kept
    )


def id_of(token: str, key: str) -> str:
    """The name of the znode for a key of the token with this id.

    >>> id_of("00000000002a", "once") == id_of("00000000002a", "once") != id_of("00000000002b", "once")
    True
    """
    return hashlib.sha256(f"{token} {key}".encode()).hexdigest()[:ID_LENGTH]


def plan_id(digest: str) -> str:
    """The name of the znode for the plan with this digest.

    >>> plan_id("c0ffee")
    'plan-c0ffee'
    """
    return f"{_OF_PLAN}{digest}"


def is_plan(id: str) -> bool:
    """Whether a mark is that of a plan.

    >>> is_plan(plan_id("c0ffee")), is_plan(id_of("00000000002a", "once"))
    (True, False)
    """
    return id.startswith(_OF_PLAN)


def digest(operation: str, fields: bytes, reason: str | None) -> str:
    """The digest of a call; two calls with one key must have the same.

    >>> digest("node/hold", b"{}", None)[:8], digest("node/hold", b"{}", "disk")[:8]
    ('154462bd', '1add33f6')
    """
    return hashlib.sha256(b"\0".join([operation.encode(), fields, (reason or "").encode()])).hexdigest()
