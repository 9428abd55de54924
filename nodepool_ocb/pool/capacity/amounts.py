"""Amounts of resources: of one node, and a meter that counts them against limits. Pure.

A key without a limit is unlimited. Nodepool writes ``volume_gb`` into nodes and reads ``volume-gb`` from limits. Here both are
one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Amounts = Mapping[str, float]


def amounts(resources: Mapping[str, object] | None) -> dict[str, float]:
    """Numbers by key, with one instance where ``resources`` has none.

    >>> amounts({"volume_gb": 20, "az": "a"})
    {'instances': 1.0, 'volume-gb': 20.0}
    """
    found = {"instances": 1.0}
    for key, value in (resources or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[key.replace("_", "-")] = float(value)
    return found


def total(each: Iterable[Amounts]) -> dict[str, float]:
    """The sum of each key.

    >>> total([{"instances": 1.0}, {"instances": 1.0, "cores": 4.0}])
    {'instances': 2.0, 'cores': 4.0}
    """
    found: dict[str, float] = {}
    for one in each:
        for key, value in one.items():
            found[key] = found.get(key, 0.0) + value
    return found


class Meter:
    """Usage against the limits of a pool, a provider, a provider's quota or a tenant."""

    __slots__ = ("limits", "used")

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits = {key.replace("_", "-"): value for key, value in limits.items()}
        self.used: dict[str, float] = {}

    def add(self, need: Amounts) -> None:
        for key in self.limits:
            if key in need:
                self.used[key] = self.used.get(key, 0.0) + need[key]

    def lacking(self, need: Amounts) -> str | None:
        """The first key with too little room; None if ``need`` fits now."""
        for key, limit in self.limits.items():
            if need.get(key, 0.0) > 0.0 and self.used.get(key, 0.0) + need[key] > limit:
                return key
        return None

    def never(self, need: Amounts) -> str | None:
        """The first key with a limit below ``need`` itself; None if it fits into the empty meter."""
        return next((key for key, limit in self.limits.items() if need.get(key, 0.0) > limit), None)

    def left(self) -> dict[str, float]:
        """The room of each limited key; negative above the limit."""
        return {key: limit - self.used.get(key, 0.0) for key, limit in self.limits.items()}

    def sentence(self, key: str) -> str:
        """The usage of one key in words."""
        return f"{key}: {self.used.get(key, 0.0):g} of {self.limits[key]:g} in use"
