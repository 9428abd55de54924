"""The turn of an annealer that is not the first at a node: it lets instant work to the first, and helps where that is late."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb_annealer import claims
from nodepool_ocb_annealer.claims import LAGS, LATE_TURNS, STEALS_AT_ONCE
from nodepool_ocb_annealer.timer_kinds import TimerKind
from tests.annealer.test_feeding import Context, among, settle

OWN, FOREIGN = "own", [f"foreign{number}" for number in range(STEALS_AT_ONCE + 2)]


class Desk(Context):
    """Annealer "a" is the first at OWN, and the second at the others; the test moves the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *nodes: str, instant: bool = True) -> None:
        self.clock = 1000.0
        monkeypatch.setattr(claims, "time", SimpleNamespace(monotonic=lambda: self.clock))
        super().__init__(among(*(f"a@{node}" for node in nodes)), instant)
        self.ranking.of = lambda node, without=None: int(node != OWN)  # type: ignore[method-assign] # noqa: ARG005

    def goes_on(self, seconds: float) -> None:
        """The time goes by; timers that are due are kept."""
        end = self.clock + seconds
        while (wait := self.timers.seconds(self.clock, at_most=9e9)) <= end - self.clock:
            self.clock += wait
            for timer in list(self.timers.due(self.clock)):
                assert timer.kind is TimerKind.CONSIDER
                self.claims.consider(timer.about)
        self.clock = end

    def answer(self, number: int, node: str) -> None:
        """The transaction was written."""
        settle(self.world, f"a@{node}")
        self.sent[number][1](None)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    return lambda *nodes, **more: Desk(monkeypatch, *nodes, **more)


def test_instant_work_of_another_waits_for_its_turn_and_for_the_end_of_our_own(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, FOREIGN[0])
    delay = at.settings.steal_delay_seconds
    at.claims.consider(FOREIGN[0])
    at.claims.consider(OWN)
    at.goes_on(3 * delay)
    assert at.asked == ["claim of a@own"], "the first annealer there may do it meanwhile"
    at.clock -= 3 * delay  # it was written at once
    at.answer(0, OWN)
    at.goes_on(5 * delay)
    assert at.asked == ["claim of a@own", "claim of a@foreign0"]


def test_work_on_machines_is_taken_from_a_busy_annealer_though_we_have_work_of_our_own(
    desk: Callable[..., Desk],
) -> None:
    at = desk(FOREIGN[0], instant=False)
    own: Any = "instant work that is under way"
    at.claims._inline[OWN] = own
    at.claims.consider(FOREIGN[0])
    assert at.asked == []
    at.goes_on(at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@foreign0"]


def test_few_are_taken_from_others_at_once(desk: Callable[..., Desk]) -> None:
    at = desk(*FOREIGN)
    for node in FOREIGN:
        at.claims.consider(node)
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds * 2)
    assert len(at.asked) == STEALS_AT_ONCE
    at.answer(0, at.asked[0].partition("@")[2])
    at.goes_on(at.settings.steal_delay_seconds)
    assert len(at.asked) == STEALS_AT_ONCE + 1


def test_an_annealer_that_begins_nothing_is_helped_by_one_that_always_has_work(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, FOREIGN[0])
    at.claims.consider(OWN)  # it is never answered
    at.claims.consider(FOREIGN[0])
    at.goes_on((LATE_TURNS + 2) * at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@own", "claim of a@foreign0"]


def test_where_transactions_take_long_every_rank_waits_longer(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, FOREIGN[0])
    at.claims._lag_seconds = 1.0
    at.claims.consider(FOREIGN[0])
    at.goes_on(LAGS - 0.1)
    assert at.asked == []
    at.goes_on(0.2)
    assert at.asked == ["claim of a@foreign0"]


def test_the_lag_is_that_of_the_newest_transactions(desk: Callable[..., Desk]) -> None:
    at = desk(OWN)
    at.claims.consider(OWN)
    at.clock += 8.0
    at.answer(0, OWN)
    assert at.claims._lag_seconds == pytest.approx(8.0 / claims.LAG_SHARE)


def test_a_node_without_work_counts_anew_when_it_has_some(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0])
    delay = at.settings.steal_delay_seconds
    at.claims.consider(FOREIGN[0])
    settle(at.world, f"a@{FOREIGN[0]}")
    at.goes_on(delay / 2)
    at.claims.consider(FOREIGN[0])
    assert at.claims._ready_since == {}
