"""Annealers whose clocks are wrong by hours: ZooKeeper's time alone counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import liveness
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Create, Node, NodeRole, Set, State
from nodepool_ocb.rollout.records import Decision, GroupRecord, GroupState
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.clocks import skewed
from tests.journeys.fleet import Fleet
from tests.journeys.staging import LiveRollout, acting, document, nodes, propose, roles

HOUR = 3600.0
YEAR = 365 * 24 * HOUR
N1 = "n1.example.com"


@pytest.mark.long
def test_a_driver_whose_clock_is_two_hours_ahead_takes_over_and_nothing_is_late(fleet: Fleet) -> None:
    before = fleet.session.now()
    live = taken_over(fleet, takes=3.0, timeout_seconds=900.0, first=-HOUR, second=HOUR)
    live.until_over(90.0)
    assert live.states()["n1"] == "success"
    assert_dated(live, before)


@pytest.mark.long
def test_a_driver_whose_clock_is_two_hours_behind_takes_over_and_time_runs_out_when_it_has(fleet: Fleet) -> None:
    before = fleet.session.now()
    live = taken_over(fleet, takes=600.0, timeout_seconds=15.0, first=HOUR, second=-HOUR)
    rollout = live.until_over(90.0)
    assert live.states()["n1"] in ("unknown", "failure")  # until its run has ended, and then
    assert "ran out of time" in str(rollout.nodes[N1].reason)
    assert_dated(live, before)


def test_a_phase_that_begins_ten_years_ahead_runs_out_of_time_all_the_same(fleet: Fleet) -> None:
    begun = fleet.session.now()
    live = started(fleet, takes=600.0, timeout_seconds=3.0)
    live.ask(lambda it: [Decision("all", ahead_of(it.groups["all"], begun), "as a driver does")])
    fleet.annealer().begin()
    rollout = live.until_over(90.0)
    assert live.states()["n1"] in ("unknown", "failure")  # until its run has ended, and then
    assert "ran out of time after 3 s" in str(rollout.groups["all"].detail)
    assert_dated(live, begun)


def test_an_attempt_that_is_put_off_by_ten_years_begins_at_once(fleet: Fleet) -> None:
    nodes(fleet, {N1: Node()})
    roles(fleet, quick=acting(0.0))
    name = propose(fleet, "quick", N1)
    put_off = fleet.session.now() + 10 * YEAR
    fleet.session.commit(
        [Set(paths.noderole("quick", N1), fleet.record(name).amended(state=State.TODO, not_before=put_off), 0)]
    )
    fleet.annealer().begin()
    fleet.until_state(name, State.ACTIVE)


def test_an_annealer_whose_clock_is_ahead_goes_on_with_a_large_death_under_zookeepers_time(fleet: Fleet) -> None:
    fleet.add_node(N1, Node(virtual=True, alive=True, deployment="fleet"))
    active = NodeRole(state=State.ACTIVE, since=1.0, deployment="fleet")
    bound = [Create(paths.noderole(f"r{number}", N1), active) for number in range(2 * limits.MOST_CHANGES)]
    for part in limits.parts(limits.singly(bound)):
        fleet.session.commit(part)
    fleet.write(lambda world: liveness.died(world.nodes[N1], fleet.session.now(), "connect: refused"))
    assert fleet.node(N1).dying
    fleet.annealer().begin(**skewed(HOUR))
    fleet.until(lambda: not fleet.node(N1).dying, "all of its noderoles are set back")
    records = [vertex.record for vertex in load_world(fleet.session).vertices()]
    assert {record.state for record in records} == {State.TODO}
    assert max(record.since for record in records) < fleet.session.now() + HOUR / 2


def ahead_of(record: GroupRecord, now: float) -> GroupRecord:
    """The group at work, as a driver writes it while the leader's clock is ten years ahead."""
    return replace(record, state=GroupState.RUNNING, phase_since=now + 10 * YEAR, begun=1, turn=1, attempt=1)


def taken_over(fleet: Fleet, takes: float, timeout_seconds: float, first: float, second: float) -> LiveRollout:
    """A rollout of one node that takes so long; its driver, with the first clock, is killed while the node is at work."""
    driver = fleet.annealer().begin(**skewed(first))
    live = started(fleet, takes, timeout_seconds)
    fleet.until_state(f"slow@{N1}", State.TRANSITION)
    fleet.annealer().begin(**skewed(second))
    fleet.until(lambda: fleet.living() == 2, "the second is there")
    driver.kill()
    return live


def started(fleet: Fleet, takes: float, timeout_seconds: float) -> LiveRollout:
    """A rollout of one node that takes so long."""
    nodes(fleet, {N1: Node()})
    roles(fleet, slow=acting(takes))
    propose(fleet, "slow", N1)
    strategy = document(
        [{"name": "all", "selectors": [{"node_names": ["n1"]}]}],
        ({"name": "deploy", "timeout_seconds": timeout_seconds},),
    )
    return LiveRollout(fleet, strategy)


def assert_dated(live: LiveRollout, before: float) -> None:
    """Nothing is written under another time than ZooKeeper's."""
    fleet, rollout = live.fleet, live.now
    stamps = [
        rollout.head.since,
        rollout.nodes[N1].since,
        rollout.groups["all"].since,
        fleet.record(f"slow@{N1}").since,
    ]
    assert all(before - 120 <= stamp <= fleet.session.now() + 1 for stamp in stamps)
