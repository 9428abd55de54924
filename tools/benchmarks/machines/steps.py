"""A round of one side: when each step of each machine began and ended, and what the round cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import TypeAlias

import msgspec

from benchmarks.figure import Figure, over, p99

Step: TypeAlias = tuple[float, float]  # its begin and its end, in seconds since the round began


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of all machines, done once. ``steps`` has the steps of each machine, in their order."""

    seconds: float
    steps: Sequence[Sequence[Step]]
    cpu_seconds: float | None = None  # of the processes that gave the orders, the machines not counted
    resident_bytes: int | None = None  # of that process, at the end, with all connections open
    threads: int | None = None
    sockets: int | None = None

    @property
    def size(self) -> int:
        """The number of steps.

        >>> Round(seconds=1.0, steps=[[(0.0, 0.5), (0.5, 0.7)], [(0.0, 0.6)]]).size
        3
        """
        return sum(map(len, self.steps))

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self.size / self.seconds

    @property
    def cpu_ms(self) -> float | None:
        """Of a step."""
        return self.cpu_seconds and self.cpu_seconds / self.size * 1000

    @property
    def durations(self) -> list[float]:
        """Seconds from the begin to the end of each step."""
        return [ended - began for steps in self.steps for began, ended in steps]

    @property
    def firsts(self) -> list[float]:
        """Seconds until the first step of each machine had ended: connecting, and installing where that is needed."""
        return [steps[0][1] for steps in self.steps if steps]

    @property
    def further(self) -> list[float]:
        """Seconds from the end of each step to the end of the next one on the same machine.

        >>> Round(seconds=1.0, steps=[[(0.0, 0.5), (0.5, 0.75)]]).further
        [0.25]
        """
        return [after[1] - before[1] for steps in self.steps for before, after in pairwise(steps)]


def middle(rounds: Iterable[Round], value: Callable[[Round], float | None]) -> float | None:
    """The median of a value over the rounds that have one; None if none has."""
    values = [found for each in rounds if (found := value(each)) is not None]
    return median(values) if values else None


def pooled(rounds: Iterable[Round], values: Callable[[Round], Iterable[float]]) -> list[float]:
    """The values of all rounds together, in ms."""
    return [value * 1000 for each in rounds for value in values(each)]


def times(
    name: str, what: str, ours: Sequence[float], other: Sequence[float], beside: str, target: float | None, note: str
) -> Figure:
    """A figure of milliseconds: the medians, and the p99 beside them. ``other`` is empty for a peer that is missing."""
    own, peer = median(ours), median(other) if other else None
    return Figure(
        name=name, what=what, unit="ms", ours=own, p99=p99(ours), other=peer, other_p99=p99(other),
        beside=f"ms, {beside}", ratio=over(own, peer), bound="at most", target=target, note=note,
    )  # fmt: skip
