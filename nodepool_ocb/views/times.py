"""Times and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def age(seconds: float) -> str:
    """How long ago, in the largest two units.

    >>> age(4), age(3900.0), age(180_000)
    ('4s', '1h5m', '2d2h')
    """
    left = max(0, int(seconds))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{name}")
    return "".join(part for part in parts[:2] if not part.startswith("0")) or "0s"


def shown(seconds: float) -> str:
    """A time in local time: 2026-01-31 18:00:00."""
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def universal(seconds: float) -> str:
    """A time in UTC, as sentences about holds and marks have it.

    >>> universal(0.0)
    '1970-01-01T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
