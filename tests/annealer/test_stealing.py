"""The turn of an annealer that is not the first at a node: it lets instant work to the first, and helps where that is late."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.model.records import State
from nodepool_ocb_annealer import claims, stealing
from nodepool_ocb_annealer.stealing import (
    LAGS,
    LATE_AT_ONCE,
    LATE_TURNS,
    LONGEST_LAG_SECONDS,
    STEALS_AT_ONCE,
)
from nodepool_ocb_annealer.timer_kinds import TimerKind
from tests.annealer.test_feeding import Context, among, settle
from tests.engine.worlds import put

OWN, FOREIGN = "own", [f"foreign{number}" for number in range(STEALS_AT_ONCE + 2)]
MANY = [f"foreign{number}" for number in range(3 * LATE_AT_ONCE)]


class Desk(Context):
    """Annealer "a" is the first at OWN, and the second at the others; the test moves the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *nodes: str, instant: bool = True) -> None:
        self.clock = 1000.0
        monkeypatch.setattr(claims, "time", SimpleNamespace(monotonic=lambda: self.clock))
        super().__init__(among(*(f"a@{node}" for node in nodes)), instant)
        self.ranking.of = lambda node, without=None: int(node != OWN)  # type: ignore[method-assign] # noqa: ARG005
        self.searches = 0
        search = self.claims._candidates

        def counted(view: NodeView, moved: dict[Vertex, Any] | None = None) -> list[Vertex]:
            self.searches += 1
            return search(view, moved)

        self.claims._candidates = counted  # type: ignore[method-assign]

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

    def lags(self, seconds: float, times: int = 50) -> None:
        """So many transactions of its own took so long, and ended now."""
        for _ in range(times):
            self.claims._stealing.answered(OWN, seconds, self.clock)


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
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds / 2)
    assert len(at.asked) == STEALS_AT_ONCE
    at.answer(0, at.asked[0].partition("@")[2])
    at.goes_on(at.settings.steal_delay_seconds)
    assert len(at.asked) == STEALS_AT_ONCE + 1


def test_an_annealer_that_hangs_loses_many_nodes_at_the_rate_of_transactions(desk: Callable[..., Desk]) -> None:
    """Each node is searched for work once. It was once in each delay, and four nodes were taken in each."""
    at, trip = desk(*MANY), 0.01
    for node in MANY:
        at.claims.consider(node)
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds)
    for number in range(len(MANY)):
        at.answer(number, at.asked[number].partition("@")[2])
        at.goes_on(trip / LATE_AT_ONCE)
    assert len(set(at.asked)) == len(at.asked) == len(MANY)
    assert at.searches == len(MANY)


def test_of_an_annealer_that_is_late_more_is_taken_and_the_rest_is_not_searched(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, *MANY)
    at.claims.consider(OWN)  # it is never answered
    for node in MANY:
        at.claims.consider(node)
    at.goes_on(5 * LATE_TURNS * at.settings.steal_delay_seconds)
    assert len(at.asked) == at.searches == 1 + LATE_AT_ONCE
    at.answer(1, at.asked[1].partition("@")[2])
    assert len(at.asked) == at.searches == 2 + LATE_AT_ONCE


def test_late_nodes_that_wait_are_looked_at_once_in_ten_turns(desk: Callable[..., Desk]) -> None:
    at, looks = desk(OWN, *MANY), 0
    at.claims.consider(OWN)
    for node in MANY:
        at.claims.consider(node)
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds)
    consider = at.claims.consider

    def counted(fqdn: str) -> None:
        nonlocal looks
        looks += 1
        consider(fqdn)

    at.claims.consider = counted  # type: ignore[method-assign]
    at.goes_on(2 * LATE_TURNS * at.settings.steal_delay_seconds)
    waiting = len(MANY) - LATE_AT_ONCE
    assert waiting <= looks <= 2 * waiting


def test_nodes_that_wait_are_taken_though_the_ends_of_the_others_came_when_nothing_could_begin(
    desk: Callable[..., Desk],
) -> None:
    at = desk(OWN, *MANY)
    at.claims.consider(OWN)
    for node in MANY:
        at.claims.consider(node)
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds)
    at.session.trusted = False
    for number in range(1, len(at.asked)):
        at.answer(number, at.asked[number].partition("@")[2])
    at.session.trusted = True
    assert len(at.asked) == 1 + LATE_AT_ONCE
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds)
    assert len(at.asked) == 1 + 2 * LATE_AT_ONCE


def test_the_line_does_not_move_while_too_many_are_under_way(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = desk(OWN, *MANY)
    at.claims.consider(OWN)
    for node in MANY:
        at.claims.consider(node)
    at.goes_on(LATE_TURNS * at.settings.steal_delay_seconds)
    monkeypatch.setattr(claims, "MOST_IN_FLIGHT", LATE_AT_ONCE)
    at.answer(1, at.asked[1].partition("@")[2])
    assert len(at.asked) == at.searches == 1 + LATE_AT_ONCE


def test_a_node_at_which_another_goes_on_is_left_to_it(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0])
    delay = at.settings.steal_delay_seconds
    for version in range(6, 40):
        at.world.put_fence(FOREIGN[0], version)
        at.claims.consider(FOREIGN[0])
        at.goes_on(delay / 2)
    assert at.asked == []
    at.goes_on(delay)
    assert at.asked == ["claim of a@foreign0"]


def test_an_annealer_that_begins_nothing_is_helped_by_one_that_always_has_work(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, FOREIGN[0])
    at.claims.consider(OWN)  # it is never answered
    at.claims.consider(FOREIGN[0])
    at.goes_on((LATE_TURNS + 2) * at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@own", "claim of a@foreign0"]


def test_where_transactions_take_long_every_rank_waits_longer(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, FOREIGN[0])
    at.claims.consider(FOREIGN[0])
    for _ in range(25):
        at.lags(1.0)  # they go on
        at.goes_on(LAGS / 30)
    assert at.asked == []
    at.goes_on(stealing.LAG_HALVES_SECONDS)
    assert at.asked == ["claim of a@foreign0"]


def test_the_lag_is_that_of_the_newest_transactions(desk: Callable[..., Desk]) -> None:
    at = desk(OWN)
    at.claims.consider(OWN)
    at.clock += 0.8
    at.answer(0, OWN)
    assert at.claims._stealing._lag(at.clock) == pytest.approx(0.8 / stealing.LAG_SHARE)


def test_after_an_outage_of_minutes_the_work_of_one_that_hangs_waits_for_seconds(desk: Callable[..., Desk]) -> None:
    at = desk(OWN, FOREIGN[0])
    at.claims.consider(OWN)
    at.clock += 600.0  # the session lives on, and the doubt is settled
    at.answer(0, OWN)
    at.lags(600.0)
    at.claims.consider(FOREIGN[0])
    at.goes_on(LAGS * LONGEST_LAG_SECONDS)
    assert at.asked == ["claim of a@own", "claim of a@foreign0"]


def test_without_transactions_of_its_own_an_annealer_forgets_the_lag_within_seconds(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0])
    at.lags(LONGEST_LAG_SECONDS)
    at.goes_on(10.0)
    at.claims.consider(FOREIGN[0])
    at.goes_on(at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@foreign0"]


def test_a_node_that_waits_already_is_taken_as_soon_as_the_lag_is_forgotten(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0])
    at.lags(LONGEST_LAG_SECONDS)
    at.claims.consider(FOREIGN[0])
    at.goes_on(2 * stealing.LAG_HALVES_SECONDS)
    assert at.asked == ["claim of a@foreign0"]


def test_in_a_new_session_the_lag_is_forgotten_and_ranks_count_anew(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0])
    at.claims.consider(FOREIGN[0])
    at.clock += 100.0
    at.lags(LONGEST_LAG_SECONDS)
    at.claims.void()
    at.claims.consider(FOREIGN[0])
    assert at.asked == []
    at.goes_on(at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@foreign0"]


def test_work_on_machines_does_not_wait_for_the_lag_of_transactions(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0], instant=False)
    at.lags(LONGEST_LAG_SECONDS)
    at.claims.consider(FOREIGN[0])
    at.goes_on(at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@foreign0"]


def test_a_role_that_is_not_known_is_no_instant_work(desk: Callable[..., Desk]) -> None:
    at = desk()
    put(at.world, f"gone@{FOREIGN[0]}", State.TODO)
    put(at.world, f"a@{FOREIGN[0]}", State.TODO)
    del at.world.roles["gone"]
    at.lags(LONGEST_LAG_SECONDS)
    at.claims.consider(FOREIGN[0])
    at.goes_on(at.settings.steal_delay_seconds)
    assert at.asked == ["claim of a@foreign0"]


def test_a_node_without_work_counts_anew_when_it_has_some(desk: Callable[..., Desk]) -> None:
    at = desk(FOREIGN[0])
    delay = at.settings.steal_delay_seconds
    at.claims.consider(FOREIGN[0])
    settle(at.world, f"a@{FOREIGN[0]}")
    at.goes_on(delay / 2)
    at.claims.consider(FOREIGN[0])
    assert at.claims._stealing._ready == {}
