"""The rules of requests, restated slowly and without the product: the pools that can serve one, and the latest start of each.

The restatement knows the places that a provider truly has. It serves strictly in the order of priority, relative priority and
age: while the first waiting request finds no pool with room, no other starts. Each use of a place costs a given time beside
the use itself: for a launch, a deletion, and the faults that may hit them. A launcher that lets requests pass each other, or
that uses its places better, is quicker.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

#: The labels that each pool offers, and the number of its places.
OFFERS: Final[Mapping[str, frozenset[str]]] = {
    "rack": frozenset({"any", "iron"}),
    "north": frozenset({"any", "cloud"}),
    "south": frozenset({"any", "cloud"}),
}
PLACES: Final[Mapping[str, int]] = {"rack": 4, "north": 4, "south": 3}
UNKNOWN: Final = "gold"  # a label that no pool offers
SIZES: Final = (1, 1, 1, 1, 1, 2, 2, 3, 3, 4)


class Wish(NamedTuple):
    """A request that a person will make, ``after`` some seconds of the storm."""

    number: int
    after: float
    labels: tuple[str, ...]
    priority: int
    relative: int
    tenant: str
    seconds: float  # of the use
    deserts: bool  # the person's session ends during the use, and the nodes are never returned


class Life(NamedTuple):
    """The times of a request, in seconds of one clock."""

    asked: float
    ended: float


def wishes(count: int, seconds: float, seed: int, vain: int = 0) -> list[Wish]:
    """Requests of mixed sizes: a third at once, the others during the storm. Some for machines of the rack are too large.

    The first ``vain`` ones are too large for each cloud: only the false quota permits them.
    """
    chance = random.Random(seed)
    found = []
    for number in range(count):
        after = 0.0 if number % 3 == 0 else chance.uniform(0.0, seconds)
        kind = UNKNOWN if chance.random() < 0.03 else chance.choice(("any", "any", "iron", "cloud"))
        size = 5 if kind == "iron" and chance.random() < 0.06 else chance.choice(SIZES)
        kind, size = ("cloud", 5) if number < vain else (kind, size)
        found.append(
            Wish(
                number=number,
                after=after,
                labels=(kind,) * size,
                priority=chance.choice((100, 200, 200, 300)),
                relative=chance.choice((0, 0, 1)),
                tenant=chance.choice(("red", "blue")),
                seconds=chance.uniform(0.1, 1.5),
                deserts=chance.random() < 0.08,
            )
        )
    return found


def able(labels: Sequence[str], places: Mapping[str, int]) -> list[str]:
    """The pools that can serve a request when they are empty."""
    return [name for name, offered in OFFERS.items() if set(labels) <= offered and len(labels) <= places[name]]


def latest_starts(
    lives: Mapping[Wish, Life], places: Mapping[str, int], cost_seconds: float, fault_seconds: float
) -> dict[Wish, float]:
    """The latest start of each request that a pool can serve. Each use costs ``cost_seconds`` more than the use itself.

    ``fault_seconds``: one fault may delay a request itself so long, but no more than one of those before it.
    """
    coming = sorted((life.asked, wish.number, wish) for wish, life in lives.items() if able(wish.labels, places))
    begin = coming[0][0] if coming else 0.0
    free = dict.fromkeys(places, 0)
    ends = sorted((begin + cost_seconds, number, pool, size) for number, (pool, size) in enumerate(places.items()))
    waiting: list[tuple[int, int, float, int, Wish]] = []
    starts: dict[Wish, float] = {}
    while coming or waiting:
        now = min(each[0][0] for each in (coming, ends) if each)
        while coming and coming[0][0] <= now:
            asked, _, wish = coming.pop(0)
            heapq.heappush(waiting, (wish.priority, wish.relative, asked, wish.number, wish))
        while ends and ends[0][0] <= now:
            _, _, pool, size = heapq.heappop(ends)
            free[pool] += size
        while waiting and (found := _room(waiting[0][4], free, places)) is not None:
            wish = heapq.heappop(waiting)[4]
            free[found] -= len(wish.labels)
            starts[wish] = now + cost_seconds + fault_seconds
            heapq.heappush(ends, (now + cost_seconds + wish.seconds, wish.number, found, len(wish.labels)))
    return starts


def _room(wish: Wish, free: Mapping[str, int], places: Mapping[str, int]) -> str | None:
    return next((name for name in able(wish.labels, places) if len(wish.labels) <= free[name]), None)
