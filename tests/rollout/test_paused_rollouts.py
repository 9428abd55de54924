"""A rollout whose deployment is paused: nothing is sent, what is on its way arrives, and its own time stands still."""

from __future__ import annotations

from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.rollout.records import GroupState
from nodepool_ocb.rollout.rounds.sending import held_back
from nodepool_ocb.rollout.step import Step, step
from nodepool_ocb.views.rollouts.rows import row
from tests.rollout.simulation import Driver
from tests.rollout.test_rollout_steps import driver, hanging, node, states

PAUSE = Maintenance(by="ann", reason="switch", since=1000.0)
LIMITED = {"max_in_flight": {"nodes": 1}, "groups": [{"timeouts": {"prepare": 60.0, "deploy": 60.0}}]}


def settle(drive: Driver, pause: Maintenance | None) -> Step:
    while True:
        decided = step(drive.rollout, drive.machines.seen(drive.rollout), drive.now, pause)
        drive.write(decided.decisions)
        if decided.decisions:
            continue  # as the annealer that drives it: actions follow from what is written
        drive.machines.do(decided.actions)
        if not decided.actions:
            return decided


def test_nothing_is_sent_while_it_is_paused_and_what_is_on_its_way_arrives() -> None:
    drive = driver(LIMITED, 2)
    settle(drive, None)
    drive.machines.begin()
    settle(drive, PAUSE)
    assert row(Key("lab", "1"), drive.rollout.head, None, {}).reason == "its deployment is paused by ann: switch"
    drive.machines.finish()
    settle(drive, PAUSE)
    assert states(drive.rollout) == "pn", "the other waits"
    assert held_back(drive.rollout, "all", node(1)) == "its deployment is paused by ann: switch"
    settle(drive, None)
    assert states(drive.rollout) == "ps"
    assert drive.run().head.state == "success"


def test_what_was_to_be_sent_and_was_not_yet_is_not_sent_by_the_pause() -> None:
    drive = driver(LIMITED, 1)
    decided = step(drive.rollout, {}, drive.now)
    while not decided.actions:
        drive.write(decided.decisions)
        decided = step(drive.rollout, drive.machines.seen(drive.rollout), drive.now)
    drive.write(step(drive.rollout, drive.machines.seen(drive.rollout), drive.now, PAUSE).decisions)
    assert step(drive.rollout, drive.machines.seen(drive.rollout), drive.now, PAUSE).actions == ()
    assert drive.machines.starts.total() == 0


def test_a_pause_of_hours_makes_no_phase_run_out_of_time_and_afterwards_the_rest_of_its_time_counts() -> None:
    drive = driver(LIMITED, 1, hanging((node(0), 0)))
    settle(drive, None)
    drive.machines.begin()
    drive.now += 40.0
    settle(drive, Maintenance(by="ann", since=drive.now))
    drive.now += 9000.0
    assert settle(drive, Maintenance(by="ann", since=drive.now)).due is None
    assert drive.rollout.groups["all"].state is GroupState.RUNNING
    assert settle(drive, None).due == drive.now + 20.0
    drive.now += 19.0
    settle(drive, None)
    assert drive.rollout.groups["all"].state is GroupState.RUNNING
    drive.now += 1.0
    settle(drive, None)
    failed = drive.rollout.groups["all"]
    assert (failed.state, (failed.detail or "").partition(";")[0]) == (
        GroupState.FAILED,
        "prepare ran out of time after 60 s: 1 unknown, 0 not sent",
    )


def test_no_group_begins_while_it_is_paused_and_a_phase_that_began_meanwhile_has_all_of_its_time() -> None:
    drive = driver({"groups": [{"timeouts": {"deploy": 60.0}}]}, 1)
    settle(drive, PAUSE)
    assert drive.rollout.groups["all"].state is GroupState.NOT_STARTED
    settle(drive, None)
    drive.machines.begin()
    drive.now += 10.0
    settle(drive, Maintenance(by="ann", since=drive.now))
    drive.now += 500.0
    drive.machines.finish()
    settle(drive, Maintenance(by="ann", since=drive.now))
    assert drive.rollout.groups["all"].phase == 1
    drive.now += 500.0
    assert settle(drive, None).due == drive.now + 60.0
