"""Which checks an annealer asks for by the schedules of deployments, of which nodes, and when it looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.records import Change, Deployment, DeploymentState, Node, NodeRole, Role, Set, State
from nodepool_ocb_annealer import checking
from nodepool_ocb_annealer.checking import CheckScheduler
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

NODES = [f"n{number}.example.com" for number in range(8)]
DAY = 86_400.0
DAILY = Checks(schedule="0 3 * * *", since=0.0)
LATER = 60.0  # seconds, in which a timer that is for now has come


class Annealer:
    """What asking needs of one: a world of nodes that have each a noderole of the role ntp, all due."""

    def __init__(self, checks: Checks | None = DAILY) -> None:
        self.world, self.timers, self.ranking = World(), Timers[Timer](), Ranking("a")
        self.identity, self.resting, self.session = "a", False, self
        self.asked: list[str] = []
        lab = Deployment(state=DeploymentState.COMMITTED, checks=checks)
        self.world.put(Stored(lab, 0), "lab")
        self.world.put(Stored(Role(barclamp="b", jig="script", check="true"), 0), "ntp")
        for name in NODES:
            self.world.put_node(name, Node(alive=True), 0)
            self.world.put_noderole(name, "ntp", NodeRole(state=State.ACTIVE, since=1.0, deployment="lab"), 0)
        self.checking = CheckScheduler(self)  # type: ignore[arg-type]

    def now(self) -> float:
        """An hour before three."""
        return 9 * DAY + 2 * 3600.0

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        """Written at once."""
        assert what.startswith("checks on ")
        for change in changes:
            if isinstance(change, Set) and isinstance(change.data, NodeRole):
                assert change.data.check is not None
                _, _, _, fqdn, _, role = change.path.split("/")
                self.asked.append(fqdn)
                self.world.put_noderole(fqdn, role, change.data, change.version + 1)
        then(None)

    def matters(self, seconds: float) -> list[Any]:
        """What comes up within so many seconds."""
        return [timer.kind for timer in self.timers.due(time.monotonic() + seconds)]

    def meets(self) -> None:
        """Whatever is for now, as often as it makes another timer."""
        while TimerKind.CHECK_SOME in self.matters(LATER):
            self.checking.due()


def test_what_is_due_is_asked_for_once_and_looked_at_again_at_the_next_tick() -> None:
    annealer = Annealer()
    annealer.checking.look_at_all()
    annealer.meets()
    assert annealer.asked == NODES
    annealer.checking.look_at_all()
    annealer.meets()
    assert annealer.asked == NODES
    annealer.checking.look_at_all()
    assert TimerKind.CHECKS not in annealer.matters(3600.0 - LATER)
    assert TimerKind.CHECKS in annealer.matters(3600.0 + LATER)


def test_of_two_annealers_each_asks_of_its_own_nodes() -> None:
    annealer = Annealer()
    annealer.ranking.among(["a", "b"])
    annealer.checking.look_at_all()
    annealer.meets()
    own = [name for name in NODES if annealer.ranking.of(name) == 0]
    assert annealer.asked == own
    assert 0 < len(own) < len(NODES)


def test_a_resting_annealer_checks_nothing() -> None:
    annealer = Annealer()
    annealer.resting = True
    annealer.checking.look_at_all()
    annealer.meets()
    assert annealer.asked == []


def test_a_turn_asks_of_so_many_nodes_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "AT_ONCE", 3)
    annealer = Annealer()
    annealer.checking.look_at_all()
    annealer.checking.look([NODES[0]])  # it is in the queue already
    annealer.checking.due()
    assert annealer.asked == NODES[:3]
    annealer.meets()
    assert annealer.asked == NODES


def test_without_a_schedule_no_node_is_looked_at() -> None:
    annealer = Annealer(checks=None)
    annealer.checking.look_at_all()
    annealer.checking.look(NODES)
    assert annealer.matters(400 * DAY) == []
    stored = annealer.world.deployments["lab"]
    annealer.world.put(Stored(replace(stored.record, checks=DAILY), 1), "lab")
    annealer.checking.look_at_all()
    annealer.meets()
    assert annealer.asked == NODES
