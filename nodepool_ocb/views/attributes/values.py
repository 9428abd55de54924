"""A value in a line."""

from __future__ import annotations

from typing import Final

import msgspec

from nodepool_ocb.model.records import Json
from nodepool_ocb.model.secrecy import hidden

LONGEST: Final = 60  # characters of a value in a line


def text(value: Json | msgspec.UnsetType) -> str:
    """As JSON, without secrets, cut where it is long.

    >>> text(["10.0.0.1"]), text(msgspec.UNSET), len(text("x" * 100))
    ('["10.0.0.1"]', 'not set', 60)
    """
    if value is msgspec.UNSET:
        return "not set"
    whole = msgspec.json.encode(hidden(value)).decode()
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 3]}..."
