"""A provider without a reported quota that refuses launches: the back-off grows, one launch tries, and room ends it."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.configuration import PoolConfiguration, PoolLabelPolicy
from nodepool_ocb.pool.deciding import decide
from nodepool_ocb.pool.explaining import explain
from nodepool_ocb.pool.instructions import DeclineRequest, DeleteNode, LaunchNode
from nodepool_ocb.pool.launches.refusals import machines
from nodepool_ocb.pool.views import PoolNodeView, PoolView, RequestView
from tests.pool.poolsimulation import DELETE_SECONDS, LAUNCH_SECONDS, PoolSimulation
from tests.pool.poolworld import NOW, configuration, decided, held, launcher, node, pool, steps, view

CLOUD = configuration(pool("main", "small"))
R1 = "100-0000000001"
QUEUE = [held(str(number), "small") for number in range(1, 21)]


def refused(number: str = "5", refusals: int = 1, age: float = 0.0, beside: int = 0, **fields: Any) -> PoolNodeView:
    facts = {"key": "", "party": "quota", "refusals": refusals, "beside": beside}
    times = {"state_time": NOW - age, "created": NOW - age - 1.0}
    return node(number, "small", state=PoolNodeState.ABORTED, driver_data=facts, **times, **fields)


def begun(*each: RequestView | PoolNodeView, file: PoolConfiguration = CLOUD) -> list[LaunchNode]:
    return [step for step in decided(file, *each).steps if isinstance(step, LaunchNode)]


def test_nothing_is_launched_during_the_back_off_and_it_doubles_with_each_refusal() -> None:
    for refusals, seconds in ((1, 10.0), (2, 20.0), (3, 40.0), (20, 120.0)):
        found = decided(CLOUD, *QUEUE, refused(refusals=refusals))
        assert (found.steps, found.seconds) == ((), seconds)


def test_one_launch_is_tried_after_the_back_off_and_it_bears_the_number_of_refusals() -> None:
    assert [each.refusals for each in begun(*QUEUE, refused(refusals=2, age=20.0))] == [2]
    trial = node("6", "small", state=PoolNodeState.BUILDING, allocated_to=R1, locked=True)
    assert begun(*QUEUE, refused(refusals=2, age=20.0), trial) == []


def test_a_request_for_several_nodes_tries_one() -> None:
    assert len(begun(held("1", "small", "small", "small"), refused(age=10.0))) == 1


def test_a_machine_that_is_gone_permits_one_launch_during_the_back_off() -> None:
    busy = node("6", "small", state=PoolNodeState.IN_USE, locked=True, external_id="m6", created=NOW - 1000)
    assert begun(*QUEUE, refused(beside=1), busy) == []
    assert [each.refusals for each in begun(*QUEUE, refused(beside=2), busy)] == [0]


def test_each_order_that_was_taken_permits_one_launch_more_at_a_time() -> None:
    taken = [
        node(number, "small", state=PoolNodeState.IN_USE, locked=True, external_id=f"m{number}", created=NOW)
        for number in ("6", "7", "8")
    ]
    assert [each.refusals for each in begun(*QUEUE, refused(), *taken)] == [0] * 4


def test_another_provider_is_not_delayed() -> None:
    far = pool("far", "small", provider="far")
    found = begun(*QUEUE, refused(), file=configuration(pool("main", "small"), far))
    assert {each.provider for each in found} == {"far"}
    assert len(found) == len(QUEUE)


def test_min_ready_tries_one_launch_after_the_back_off() -> None:
    file = configuration(pool("main", "small"), labels=[PoolLabelPolicy(name="small", min_ready=5)])
    assert begun(refused(refusals=3), file=file) == []
    assert [each.refusals for each in begun(refused(refusals=3, age=40.0), file=file)] == [3]


def test_the_record_of_a_refusal_stays_for_its_back_off_though_the_request_goes_on() -> None:
    assert steps(CLOUD, held("1", "small"), refused(refusals=4, age=80.0, allocated_to=R1)) == [
        "launch cloud/main small for 1"
    ]
    assert steps(CLOUD, refused(refusals=4, age=139.0)) == []
    assert steps(CLOUD, refused(refusals=4, age=140.0)) == ["delete 5"]


def test_the_reason_of_the_wait_names_the_refusals_and_the_next_trial() -> None:
    shown = view(CLOUD, held("1", "small"), refused(refusals=3, age=10.0))
    found = explain(shown, CLOUD, shown.requests[R1], NOW)
    assert (found.code, found.reason) == (
        "QUOTA",
        "cloud/main: cloud refused 3 launches in a row for its quota; one is tried in 30 s, or when a machine is deleted",
    )


MINE = node("6", "small", allocated_to=R1, external_id="m6", created=NOW - 1000)
PAIR = held("1", "small", "small")


def test_a_provider_that_is_full_of_the_nodes_of_a_request_leaves_it_to_another_pool_after_some_refusals() -> None:
    file = configuration(pool("main", "small"), pool("far", "small", provider="far"))
    assert steps(file, PAIR, MINE, refused(refusals=2, beside=1)) == []
    assert steps(file, PAIR, MINE, refused(refusals=3, beside=1)) == ["decline 1 by 1-cloud-main"]


def test_a_request_whose_nodes_fill_the_last_provider_fails_after_more_refusals_with_the_reason() -> None:
    assert steps(CLOUD, PAIR, MINE, refused(refusals=4, beside=1)) == []
    (step,) = decided(CLOUD, PAIR, MINE, refused(refusals=5, beside=1)).steps
    assert isinstance(step, DeclineRequest)
    assert step.failed
    assert step.reason == (
        "cloud/main: cloud refused 5 launches in a row for its quota, beside the nodes of the request"
    )


def test_a_request_at_a_full_provider_waits_for_the_machines_of_others() -> None:
    file = configuration(pool("main", "small"), pool("far", "small", provider="far"))
    old: dict[str, Any] = {"created": NOW - 1000}
    other = {"allocated_to": "100-0000000009", "locked": True}
    busy = node("7", "small", state=PoolNodeState.IN_USE, external_id="m7", **other, **old)
    kept = node("8", "small", state=PoolNodeState.HOLD, external_id="m8", **old)
    idle = node("9", "other", external_id="m9", **old)
    assert steps(file, PAIR, MINE, busy, refused(refusals=9, beside=2)) == []
    assert steps(file, PAIR, MINE, kept, idle, refused(refusals=9, beside=3)) == ["decline 1 by 1-cloud-main"]


def test_the_launch_that_a_full_provider_permits_is_for_the_first_request_also_if_another_launcher_has_it() -> None:
    first, later = held("1", "small", "small"), held("2", "small")
    theirs = replace(first, ours=False, locked_by="host2")
    assert steps(CLOUD, first, later, MINE, refused(age=10.0)) == ["launch cloud/main small for 1"]
    assert steps(CLOUD, theirs, later, MINE, refused(age=10.0)) == []
    waits = node("7", "small", state=PoolNodeState.FAILED, allocated_to=R1, driver_data={"key": "", "attempt": 2})
    late = replace(waits, record=replace(waits.record, state_time=NOW - 1.0))  # its own next launch is due in 9 s
    assert steps(CLOUD, theirs, later, MINE, late, refused(age=10.0)) == ["launch cloud/main small for 2"]
    assert steps(CLOUD, first, later, MINE, late, refused(age=10.0)) == ["launch cloud/main small for 2"]


def test_a_request_that_was_refused_has_the_first_launch_after_a_machine_is_gone() -> None:
    own = refused(age=1.0, beside=2, allocated_to=R1)
    assert steps(CLOUD, PAIR, held("2", "small"), MINE, own) == ["launch cloud/main small for 1"]


def test_idle_nodes_of_a_provider_that_refused_make_room_for_the_first_request_that_waits() -> None:
    """The oldest ones, and as many as the request needs. An idle node with its label is kept for it."""
    file = configuration(pool("main", "small", "large"), pool("side", "large"))
    idle = [
        node(number, "large", pool=place, external_id=f"m{number}", created=NOW - 1000, state_time=NOW - age)
        for number, place, age in (("6", "main", 10.0), ("7", "side", 30.0), ("8", "main", 20.0))
    ]
    own = node("9", "small", external_id="m9", created=NOW - 1000, state_time=NOW - 500)
    waits = held("1", "small", "small", "small")
    assert steps(file, waits, own, *idle, refused(beside=4)) == ["delete 7", "delete 8"]
    assert steps(file, own, *idle, refused(beside=4)) == []  # none waits
    assert "delete 7" not in steps(file, waits, own, *idle, refused(beside=5))  # a machine went meanwhile


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_requests_that_fit_are_served_by_a_provider_with_a_false_quota_whatever_idle_nodes_it_has(seed: int) -> None:
    """Two labels, so that returned nodes of one are in the way of the other. No node has a max-ready-age."""
    file = configuration(pool("main", "a", "b", limits={"instances": 50}))
    world, chance = PoolSimulation(dict.fromkeys((1, 2, 3), file), {"a": 10.0, "b": 10.0}, seed), random.Random(seed)
    world.rooms["cloud"] = 3
    for _ in range(10):
        types = [chance.choice("ab")] * chance.choice((1, 2, 2, 3))
        world.at(chance.uniform(0.0, 60.0), lambda types=types: world.ask(*types))  # type: ignore[misc]
    world.run(lambda: len(world.started) + len(world.failed) == 10, 10 * 2 * (LAUNCH_SECONDS + 10.0 + DELETE_SECONDS))
    assert not world.failed


def test_a_full_provider_gets_few_orders_in_an_hour_and_all_are_served_soon_after_it_has_room() -> None:
    """A small world: 20 requests, and a provider that takes ``room`` machines and reports no quota."""
    world = _World(room=2)
    world.run(3600.0)
    assert len(world.taken) == 2
    assert len(world.orders) <= 20 + 3600 / 120 + 10  # the first burst, one for each back-off, those that grow to it
    world.room = 100
    world.run(130.0)
    assert len(world.taken) == 20


class _World:
    """Requests, and launches that are taken or refused in the moment in which they begin."""

    def __init__(self, room: int) -> None:
        self.room, self.now = room, NOW
        self.orders: list[float] = []
        self.nodes: dict[str, PoolNodeView] = {}
        self._ids = itertools.count(1)

    @property
    def taken(self) -> list[PoolNodeView]:
        return [each for each in self.nodes.values() if each.record.external_id is not None]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            shown: PoolView = view(CLOUD, *QUEUE, *self.nodes.values())
            found = decide(shown, CLOUD, launcher(CLOUD), self.now)
            for step in found.steps:
                if isinstance(step, LaunchNode):
                    self._order(step)
                elif isinstance(step, DeleteNode):
                    del self.nodes[step.node]
            self.now += max(0.1, min(found.seconds or 60.0, 60.0))

    def _order(self, step: LaunchNode) -> None:
        self.orders.append(self.now)
        common = {"allocated_to": step.request, "state_time": self.now, "created": self.now}
        if len(self.taken) < self.room:
            made = node(str(next(self._ids)), "small", external_id="m", **common)
        else:
            facts = {"key": "", "party": "quota", "refusals": step.refusals + 1}
            facts["beside"] = machines(self.nodes.values()).get("cloud", 0)
            made = node(str(next(self._ids)), "small", state=PoolNodeState.ABORTED, driver_data=facts, **common)
        self.nodes[made.id] = made
