"""The cost of many requests to switch machines: it grows with the changes, and not with the requests that wait."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Stale
from nodepool_ocb.model.power import MachinePower, PowerAction, PowerResult
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.machines.powering import Powering
from tests.annealer.machines.powerdesk import Desk, asked

MACHINES = 2000


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def powering(desk: Desk) -> Iterator[Powering]:
    made = Powering(desk, SshSettings())  # type: ignore[arg-type]
    yield made
    made.close()


def ended(record: MachinePower) -> MachinePower:
    result = PowerResult(id="0" * 16, action=PowerAction.CYCLE, done=True, at=time.time())
    return replace(record, request=None, result=result)


def test_each_change_sets_timers_for_its_own_machine_and_one_that_waits(desk: Desk, powering: Powering) -> None:
    for number in range(MACHINES):
        at_work = {"annealer": "b", "began": time.time() - 99.0} if number % 20 < 2 else {}
        desk.put(
            f"n{number}", MachinePower(driver="manual", chassis=f"c{number // 20}", request=asked(number, **at_work))
        )
    powering.look_at_all()
    assert desk.due(powering) == MACHINES
    assert desk.sent == [], "each chassis has its two"
    fired = 0
    for chassis in range(100):
        name = f"n{chassis * 20}"
        desk.put(name, ended(desk.world.of(MachinePower)[name].record))
        powering.look(ChangeSet(nodes={name}))
        fired += desk.due(powering)
    assert len(desk.sent) == 100, "one of each chassis has the place that became free"
    assert fired == 100


def test_only_a_change_of_the_annealers_that_run_looks_at_all_requests(desk: Desk, powering: Powering) -> None:
    for number in range(50):
        desk.put(f"n{number}", MachinePower(driver="manual", request=asked(number, annealer="b", began=time.time())))
    powering.look_at_all()
    desk.due(powering)
    desk.annealer("b", trouble="its disk is full")
    powering.look(ChangeSet(kinds={Daemon}))
    assert desk.due(powering) == 0
    del desk.world.daemons["annealer"]["b"]
    powering.look(ChangeSet(kinds={Daemon}))
    assert desk.due(powering) == 50
    assert len(desk.sent) == 50, "the annealer is gone, and its requests are taken over"


def test_two_machines_of_a_rack_are_not_taken_in_the_same_turn(desk: Desk, powering: Powering) -> None:
    """The record of the first has not come back from ZooKeeper when the second is decided."""
    for number in range(3):
        desk.put(f"n{number}", MachinePower(driver="manual", request=asked(number)), rack="r1")
    powering.look_at_all()
    desk.due(powering)
    ((change, then),) = desk.sent
    then(Stale(change.path))
    desk.sent.clear()
    desk.due(powering)
    assert len(desk.sent) == 1, "a write that was refused holds no place"
