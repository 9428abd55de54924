"""The bound of waits in the storm of launchers finds a broken order of requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.journeys.leases.slow_rules import PLACES, Life, Wish, able, latest_starts, wishes
from tests.journeys.leases.test_launcher_storm import COST_SECONDS, FAULT_SECONDS

BUSY_SECONDS = 20.0  # that a use costs on a loaded host, as measured


def late(wished: list[Wish], starts: dict[Wish, float]) -> list[Wish]:
    lives = {wish: Life(wish.after, starts.get(wish, wish.after)) for wish in wished}
    latest = latest_starts(lives, PLACES, COST_SECONDS, FAULT_SECONDS)
    return [wish for wish, start in starts.items() if start > latest[wish]]


@pytest.mark.parametrize(
    ("broken", "order"),
    [
        ("newest first", lambda wish: -wish.after),
        ("no priority", lambda wish: wish.after),
        ("the last priority first", lambda wish: (-wish.priority, wish.after)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_requests_that_start_in_another_order_are_late(broken: str, order: Callable[[Wish], object]) -> None:
    wished = [each for each in wishes(200, 120.0, seed=31) if able(each.labels, PLACES)]
    right = latest_starts({each: Life(each.after, 0.0) for each in wished}, PLACES, BUSY_SECONDS, 0.0)
    assert not late(wished, right)
    waiting, starts = sorted(wished, key=order), {}  # type: ignore[arg-type]
    for start in sorted(right.values()):
        wish = next(each for each in waiting if each.after <= start)
        waiting.remove(wish)
        starts[wish] = start
    assert len(late(wished, starts)) > 10, broken
