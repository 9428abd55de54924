"""Times and durations as people write them; the types of options."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import click

_PARTS: Final = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?")


def duration(text: str) -> float:
    """Seconds.

    >>> duration("90m"), duration("1d"), duration("2h30m")
    (5400.0, 86400.0, 9000.0)
    """
    found = _PARTS.fullmatch(text)
    if found is None or not text:
        raise click.BadParameter(f"{text!r} is no duration; write it with its units: 30s, 90m, 2h30m or 1d")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def moment(text: str) -> float:
    """Seconds since the epoch; local time, unless the text says otherwise.

    >>> moment("2026-01-31T18:00Z")
    1769882400.0
    """
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no time; write it as 2026-01-31T18:00, or with Z behind it for UTC"
        ) from None
