"""Failures, cancellations and retries of rollouts, and the records that they leave."""

from __future__ import annotations

import msgspec
import pytest

from nodepool_ocb.rollout import commands
from nodepool_ocb.rollout.records import NodeState, Progress, RolloutRecord, RolloutState, split
from tests.rollout.simulation import failing
from tests.rollout.test_rollout_steps import driver, hanging, node, states, three


def test_a_second_critical_failure_under_stop_changes_nothing_more() -> None:
    every = {"percent_successful_nodes": 100}
    groups = [
        {"name": name, "selectors": [{"node_names": [f"n{number}"]}], "success_criteria": every}
        for number, name in enumerate("ab")
    ]
    rules = {"groups": groups, "parallel_groups": 2, "on_critical_failure": "stop"}
    drive = driver(rules, 2, failing((node(0), 0), (node(1), 0)))
    rollout = drive.run()
    assert [str(record.state) for record in rollout.groups.values()] == ["failed", "failed"]
    turns = [each.reason for each in drive.log if isinstance(each.record, RolloutRecord)]
    assert turns == ["stopping: critical group a failed", turns[-1]]


def test_a_person_may_cancel_a_rollout_that_a_failure_cancelled_before() -> None:
    drive = driver(three({"on_critical_failure": "cancel"}), 4, lambda name, *_: "fail" if name == node(0) else "hang")
    while drive.rollout.head.state is not RolloutState.CANCELLING:
        drive.settle()
        drive.machines.begin()
        drive.machines.finish()
    assert not drive.rollout.head.by_person
    (decision,) = commands.cancel(drive.rollout, drive.now, "ann", "enough")
    drive.write([decision])
    assert (drive.rollout.head.by_person, drive.rollout.head.reason) == (True, "cancelled by ann: enough")
    assert commands.cancel(drive.rollout, drive.now, "bob") == []


@pytest.mark.parametrize(("by", "name"), [("ann", "ann"), (None, "an unknown user")])
def test_a_rollout_that_goes_on_names_the_login_that_let_it(by: str | None, name: str) -> None:
    group = {"success_criteria": {"percent_successful_nodes": 100}}
    drive = driver({"groups": [group]}, 2, failing((node(0), 0)))
    drive.run()
    assert [each.reason for each in commands.retry(drive.rollout, drive.now, by)] == [f"retried by {name}"]
    assert [each.reason for each in commands.resume(drive.rollout, drive.now, by)] == [f"resumed by {name}"]


def test_a_node_that_was_sent_has_failed_also_if_its_error_was_noted_before() -> None:
    drive = driver({}, 1, failing((node(0), 0)))
    drive.run()
    drive.write(commands.retry(drive.rollout, drive.now))
    while drive.rollout.nodes[node(0)].state is not NodeState.SENT:
        drive.turn()
    drive.machines.state[node(0), 0] = "ERROR"
    drive.machines.generation[node(0), 0] -= 1
    drive.turn()
    assert drive.rollout.nodes[node(0)].state is NodeState.FAILURE


def test_a_part_has_room_for_its_nodes_at_their_largest_and_for_no_more() -> None:
    nodes = {f"n{number:04}.example.com": Progress() for number in range(500)}
    most = len(msgspec.json.encode(("n0000.example.com", (), {}))) + 400 + 128 * 8 + 400
    fit = 200 * 1024 // most
    assert split(nodes) == (*[fit] * (500 // fit), 500 % fit)


def test_a_minimum_is_not_met_by_nodes_that_were_not_sent_in_time() -> None:
    group = {"success_criteria": {"minimum_successful_nodes": 2}, "parallel_nodes": 1}
    rollout = driver({"on_timeout": "evaluate", "groups": [group]}, 4, hanging((node(0), 0))).run()
    assert (rollout.head.state, states(rollout)) == ("failed", "unnn")
    assert rollout.groups["all"].unmet == ("minimum_successful_nodes: 2 wanted, 0 successful",)


def test_a_new_rollout_begins_now_and_so_do_its_groups_and_nodes() -> None:
    rollout = driver({}, 1).rollout
    assert (rollout.head.started, rollout.head.since) == (1000.0, 1000.0)
    assert [each.since for each in (*rollout.groups.values(), *rollout.nodes.values())] == [1000.0, 1000.0]


def test_a_record_of_a_rollout_without_times_is_as_old_as_can_be() -> None:
    plain = {"type": 1, "strategy": {}, "groups": [], "nodes": 0, "inventory": "v"}
    read = msgspec.convert(
        {key: value for key, value in plain.items() if key != "type"} | {"version": 1}, RolloutRecord
    )
    assert (read.since, read.started, read.aside_seconds) == (0.0, 0.0, 0.0)
