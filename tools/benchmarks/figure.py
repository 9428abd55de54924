"""A figure: the measured value, the value for comparison, and whether the promise holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

Round = Callable[[], float]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. The target is about ``ratio``, which is None if a side could not be measured.

    A figure without a target is shown, and promises nothing.
    """

    name: str  # of the benchmark that it belongs to
    what: str
    unit: str
    ours: float | None
    other: float | None = None  # the floor, the peer, or the smaller size
    beside: str = ""  # what ``other`` is
    ratio: float | None = None
    bound: Literal["at least", "at most"] = "at most"
    target: float | None = None
    p99: float | None = None  # of the single operations, where ``ours`` is their median
    other_p99: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """None where it could not be measured, and where nothing is promised."""
        if self.ratio is None or self.target is None:
            return None
        return self.ratio >= self.target if self.bound == "at least" else self.ratio <= self.target


class Plan(msgspec.Struct, frozen=True):
    """The size of a measurement: ``share`` scales the sizes, 1 is the promised size."""

    rounds: int = 5
    share: float = 1.0
    against: Path | None = None  # another checkout, as the peer of those that compare with one

    def size(self, full: int, least: int = 1) -> int:
        """A size as this plan has it.

        >>> Plan(share=0.1).size(10_000), Plan(share=0.1).size(200, least=50)
        (1000, 50)
        """
        return max(least, round(full * self.share))


def p99(values: Sequence[float]) -> float | None:
    """The least of the values that 99 of 100 do not exceed; None if there are none.

    >>> p99(range(1, 201)), p99([3.0, 1.0]), p99([])
    (198, 3.0, None)
    """
    return sorted(values)[math.ceil(len(values) * 0.99) - 1] if values else None


def over(ours: float | None, other: float | None) -> float | None:
    """The ratio of two values; None if one is missing, or the second one is not above zero.

    >>> over(3.0, 2.0), over(None, 2.0), over(3.0, None), over(3.0, -0.04)
    (1.5, None, None, None)
    """
    return ours / other if ours is not None and other is not None and other > 0 else None


def interleaved(rounds: int, sides: Mapping[str, Round], warm_up: bool = True) -> dict[str, float]:
    """The median of each side, measured in turns, so that a slow minute slows all of them.

    A round before the first is not counted: it is there for the server's compiler and for caches.

    >>> interleaved(3, {"a": iter([9.0, 3.0, 1.0, 2.0]).__next__, "b": lambda: 5.0})
    {'a': 2.0, 'b': 5.0}
    """
    return {name: statistics.median(values) for name, values in rounds_of(rounds, sides, warm_up).items()}


def rounds_of(rounds: int, sides: Mapping[str, Round], warm_up: bool = True) -> dict[str, list[float]]:
    """The values of each side, measured in turns as for ``interleaved``."""
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds + warm_up):
        for name, measure in sides.items():
            measured[name].append(measure())
    return {name: values[warm_up:] for name, values in measured.items()}
