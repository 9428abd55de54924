"""Rollouts: the seed's three examples, and everything that the seed does not have."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout import commands, reading
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.plan import begin, plan
from nodepool_ocb.rollout.records import (
    Decision,
    GroupState,
    NodeState,
    Progress,
    Rollout,
    apply,
    parts,
)
from nodepool_ocb.rollout.report import logged, report
from nodepool_ocb.rollout.step import Directive, step, watched
from nodepool_ocb.rollout.strategy import PHASES, WHOLE, Phase, Strategy
from nodepool_ocb.store.client.transaction import RECORD_BYTES
from nodepool_ocb.testing.example import EXAMPLE, SITE
from tests.fixtures.corpora import CORPORA, needs
from tests.rollout.simulation import Driver, Machines, Outcome, all_well, ended, failing, reread

GOOD = "<SUCCESS>"
ABOVE = "<FAILED, due to dependency>"
YEAR = 365 * 24 * 3600.0


def printed(ntp: str, control: str, monitoring: str, second: str, first: str, end: str) -> str:
    """The seed's drawing; each argument is what a group's prepare and deploy came to."""
    groups = {
        "ntp-node": ntp,
        "control-nodes": control,
        "monitoring-nodes": monitoring,
        "compute-nodes-2": second,
        "compute-nodes-1": first,
    }
    lines = []
    for name, words in groups.items():
        pair = words.split("|") if "|" in words else [words, words]
        drawn = [f"| {f'{verb} {name}':<27}{word}" for verb, word in zip(("prepare", "deploy"), pair, strict=True)]
        lines.append("\n".join(drawn))
    return "Start\n|\n" + "\nV\n".join(lines) + f"\n|\nFinish ({end})"


@pytest.mark.parametrize(
    ("lost", "drawing"),
    [
        ([], printed(GOOD, GOOD, GOOD, GOOD, GOOD, "success")),
        (
            [("ntp01.example.com", 0)],
            printed(
                "<FAILED>|<FAILED, due to prepare failure>", ABOVE, GOOD, ABOVE, ABOVE,
                "failed due to critical group failed",
            ),
        ),
        (
            [("b1.example.com", 1), ("b2.example.com", 1)],
            printed(GOOD, GOOD, GOOD, "<SUCCESS>|<FAILED>", GOOD, "success with some nodes/groups failed"),
        ),
    ],
    ids=["success", "prepare of ntp-node fails", "deploy of compute-nodes-2 fails"],
)  # fmt: skip
def test_the_examples_of_the_seed(lost: list[tuple[str, int]], drawing: str) -> None:
    strategy = replace(reading.load(EXAMPLE, called="f"), phases=(Phase(name="prepare", roles=("os",)), PHASES[1]))
    rollout = Driver(begin(strategy, SITE, 0.0), Machines(failing(*lost))).run()
    text = report(rollout)
    assert blocks(text[: text.index("\n\n")]) == blocks(drawing)
    for name, progress in rollout.nodes.items():
        assert f"\n  {name}" in text.split(f"{progress.state} (")[1]


def blocks(drawing: str) -> tuple[list[str], str]:
    """The groups, whose order the seed leaves open, and the end."""
    start, *lines, finish = drawing.removeprefix("Start\n|\n").replace("\n|\n", "\nV\n").split("\nV\n")
    return sorted([start, *lines]), finish


def test_a_phase_that_commits_nothing_is_skipped_before_and_after() -> None:
    drive = Driver(begin(reading.load(EXAMPLE, called="f"), SITE, 0.0), Machines(failing(("ntp01.example.com", 1))))
    skipped = "<skipped: no role is in this phase>"
    for rollout in (drive.rollout, drive.run()):
        prepared = [line for line in report(rollout).splitlines() if line.startswith("| prepare")]
        assert [line.split("  ")[-1].strip() for line in prepared] == [skipped] * 5
    assert "| deploy ntp-node            <FAILED>" in report(drive.rollout)


def test_a_group_that_fails_in_a_phase_that_commits_nothing_has_failed_there() -> None:
    group = {"selectors": [{"node_tags": ["nobody"]}], "success_criteria": {"minimum_successful_nodes": 1}}
    drive = driver({"groups": [{"name": "a", **group}]}, 2)
    drive.run()
    assert "| prepare a   <FAILED>\n| deploy a    <FAILED, due to prepare failure>" in report(drive.rollout)


@pytest.mark.parametrize(
    ("critical", "reason"),
    [
        (True, "critical group b failed first: deploy failed: 0 of 1 successful, 1 failed; maximum_failed_nodes: 0 allowed,"
         " 1 failed; critical groups that failed: a, b"),
        (False, "group b failed first: deploy failed: 0 of 1 successful, 1 failed; maximum_failed_nodes: 0 allowed,"
         " 1 failed; critical groups that failed: a"),
    ],
)  # fmt: skip
def test_a_rollout_that_failed_names_the_group_that_failed_first(critical: bool, reason: str) -> None:
    """The critical group a, first in the document, failed only because of b."""
    groups = [
        {"name": "a", "depends_on": ["b"], "selectors": [{"node_names": [node(0)]}]},
        {
            "name": "b",
            "critical": critical,
            "selectors": [{"node_names": [node(1)]}],
            "success_criteria": {"maximum_failed_nodes": 0},
        },
    ]
    drive = driver({"groups": groups}, 2, failing((node(1), 1)))
    assert (str(drive.run().head.state), drive.rollout.head.reason) == ("failed", reason)


def test_the_log_has_the_report_with_every_node_and_no_line_without_bounds() -> None:
    site = {f"n{number:04}.example.com": Node() for number in range(2000)}
    lost = "n0007.example.com"
    drive = Driver(begin(WHOLE, site, 1000.0), Machines(failing((lost, 1))))
    drive.run()
    log = list(logged(drive.rollout))
    assert log[0] == "Start"
    assert "| deploy all    <FAILED>" in log
    assert "Finish (failed due to critical group failed)" in log
    assert f"failure: {lost}: it broke" in log
    named = " ".join(line.split(": ", 1)[1] for line in log if line.startswith("success (1999):")).split()
    assert named == sorted(site.keys() - {lost})
    assert max(map(len, log)) < 1100


def test_a_critical_group_that_fails_does_not_keep_others_from_going_on() -> None:
    lost = ("ntp01.example.com", 1)
    rollout = Driver(begin(reading.load(EXAMPLE, called="f"), SITE, 0.0), Machines(failing(lost))).run()
    assert rollout.head.state == "failed"
    assert rollout.groups["monitoring-nodes"].state == "success"
    assert rollout.groups["ntp-node"].reason == "deploy"
    assert rollout.groups["ntp-node"].detail == (
        "deploy failed: 0 of 1 successful, 1 failed; minimum_successful_nodes: 1 wanted, 0 successful"
    )


# -- what is ours --


def driver(document: dict[str, Any], nodes: int = 10, outcome: Outcome = all_well) -> Driver:
    site = {
        f"n{number}.example.com": Node(rack=f"r{number % 2}", labels={"zone": "xyz"[number % 3]})
        for number in range(nodes)
    }
    document = {
        **document,
        "groups": [{"name": "all", "critical": True, **each} for each in document.get("groups", [{}])],
    }
    made = msgspec.convert(document, Strategy)
    return Driver(begin(made, site, 1000.0), Machines(outcome))


def node(number: int) -> str:
    return f"n{number}.example.com"


def states(rollout: Rollout) -> str:
    """A letter for each node, in the order of their names."""
    return "".join(str(progress.state)[0] for progress in rollout.nodes.values())


def pass_one(drive: Driver) -> None:
    """What is on its way arrives, both phases of it."""
    for _ in range(2):
        drive.machines.begin()
        drive.machines.finish()
        drive.settle()


def test_without_a_strategy_all_nodes_must_succeed() -> None:
    for lost, state in (([], "success"), ([(node(3), 1)], "failed")):
        site = {node(number): Node() for number in range(5)}
        assert Driver(begin(WHOLE, site, 0.0), Machines(failing(*lost))).run().head.state == state


def test_a_canary_waits_until_it_is_promoted_and_batches_follow() -> None:
    batches = [{"nodes": 1, "pause": True}, {"percent": 30}, {"percent": 50}]
    drive = driver({"groups": [{"batches": batches}]})
    drive.settle()
    assert states(drive.rollout) == "s" + "n" * 9
    pass_one(drive)
    assert states(drive.rollout) == "s" + "n" * 9
    assert drive.rollout.groups["all"].state == "paused"
    assert drive.machines.starts.total() == 2
    drive.write(commands.promote(drive.rollout, "all", 1, "me"))
    reached = []
    while not drive.rollout.over:
        drive.settle()
        reached.append(len({name for name, _ in drive.machines.state}))
        drive.machines.begin()
        drive.machines.finish()
    assert sorted(set(reached)) == [3, 5, 10]
    assert drive.rollout.head.state == "success"
    assert max(drive.machines.starts.values()) == 1


def test_a_repeat_or_a_second_person_releases_one_pause_only() -> None:
    drive = driver({"groups": [{"batches": [{"nodes": 1, "pause": True}, {"nodes": 2, "pause": True}]}]})
    pauses_after(drive, 1)
    seen = commands.promote(drive.rollout, "all", 1, "ann", attempt=1)
    drive.write(seen)
    assert commands.promote(drive.rollout, "all", 1, "bob", attempt=1) == []
    pauses_after(drive, 2)
    assert commands.promote(drive.rollout, "all", 1, "bob", attempt=1) == []
    with pytest.raises(Conflict, match="pauses after batch 2, not 3"):
        commands.promote(drive.rollout, "all", 3, "bob", attempt=1)
    assert drive.rollout.groups["all"].state == "paused"
    drive.write(commands.promote(drive.rollout, "all", 2, "bob", attempt=1))
    assert drive.run().head.state == "success"


def test_a_pause_of_an_earlier_attempt_is_not_the_same_pause() -> None:
    drive = driver({"groups": [{"batches": [{"nodes": 1, "pause": True}],
                                "success_criteria": {"percent_successful_nodes": 100}}]}, 3, failing((node(2), 0)))  # fmt: skip
    drive.run(promoting=True)
    drive.write(commands.retry(drive.rollout, drive.now, attempt=1))
    pauses_after(drive, 1)
    with pytest.raises(Conflict, match="group all is at attempt 2 by now, not 1"):
        commands.promote(drive.rollout, "all", 1, attempt=1)
    assert commands.promote(drive.rollout, "all", 1, attempt=2)


def pauses_after(drive: Driver, batch: int) -> None:
    while drive.rollout.groups["all"].state != "paused" or drive.rollout.groups["all"].batch + 1 != batch:
        drive.settle()
        assert drive.machines.begin() or drive.machines.finish() or drive.rollout.groups["all"].state == "paused"


def test_a_batch_that_fails_is_the_last() -> None:
    criteria = {"percent_successful_nodes": 60}
    drive = driver({"groups": [{"batches": [{"nodes": 2}], "success_criteria": criteria}]}, 10, failing((node(1), 1)))
    rollout = drive.run()
    assert rollout.groups["all"].unmet == ("percent_successful_nodes: 60 wanted, 1 of 2 (50%) successful",)
    assert states(rollout) == "sf" + "n" * 8
    assert drive.machines.starts.total() == 4


def test_a_minimum_is_asked_of_the_last_batch_only() -> None:
    drive = driver({"groups": [{"batches": [{"nodes": 2}], "success_criteria": {"minimum_successful_nodes": 9}}]})
    assert drive.run().head.state == "success"


@pytest.mark.parametrize(
    ("limits", "key", "most"),
    [
        ({"max_in_flight": {"nodes": 3}}, "", 3),
        ({"max_in_flight": {"group": 4}}, "group all", 4),
        ({"groups": [{"parallel_nodes": 2}], "max_in_flight": {"group": 4}}, "group all", 2),
        ({"max_in_flight": {"rack": 2}}, "rack r1", 2),
        ({"max_in_flight": {"labels": {"zone": 1}}}, "label zone:x", 1),
    ],
)
def test_no_more_nodes_are_in_flight_than_may_be(limits: dict[str, Any], key: str, most: int) -> None:
    drive = driver(limits)
    assert drive.run().head.state == "success"
    assert drive.most[key] == most


def test_as_many_groups_work_at_once_as_may() -> None:
    groups = [{"name": f"g{number}", "selectors": [{"node_names": [f"n{number}"]}]} for number in range(4)]
    for at_once in (1, 3):
        drive = driver({"groups": groups, "parallel_groups": at_once})
        assert drive.run().head.state == "success"
        assert drive.most[""] == at_once


def test_a_node_in_flight_for_another_group_is_waited_for_and_not_sent_again() -> None:
    drive = driver({"groups": [{"name": "a"}, {"name": "b"}], "parallel_groups": 2}, 3)
    drive.settle()
    assert {progress.group for progress in drive.rollout.nodes.values()} == {"a"}
    assert [str(record.state) for record in drive.rollout.groups.values()] == ["running", "running"]
    assert drive.run().head.state == "success"
    assert set(drive.machines.starts.values()) == {1}


def test_a_group_deploys_what_another_prepared() -> None:
    """The first prepares both, and fails over one of them; the second deploys the other."""
    groups = [
        {"name": "a", "critical": False, "success_criteria": {"maximum_failed_nodes": 0}},
        {"name": "b", "selectors": [{"node_names": ["n1"]}]},
    ]
    rollout = driver({"groups": groups}, 2, failing((node(0), 0))).run()
    assert [record.reason for record in rollout.groups.values()] == ["prepare", None]
    assert rollout.nodes[node(1)].group == "b"
    assert states(rollout) == "fs"


# -- time --


def hanging(*stuck: tuple[str, int]) -> Outcome:
    return lambda name, phase, _: "hang" if (name, phase) in stuck else "ok"


def test_a_phase_that_runs_out_of_time_fails_its_group_and_leaves_its_nodes_unknown() -> None:
    drive = driver({"groups": [{"timeouts": {"deploy": 60.0}}, {"name": "later"}]}, 3, hanging((node(1), 1)))
    rollout = drive.run()
    assert states(rollout) == "sus"
    assert rollout.head.state == "failed"
    first = rollout.groups["all"]
    assert (first.reason, first.phase) == ("deploy", 1)
    assert first.detail == ("deploy ran out of time after 60 s: 1 unknown, 0 not sent; 2 of 3 successful, 1 failed")
    assert drive.machines.starts.total() == 6, "the unknown node was kept from the group after it"


def test_a_phase_that_began_under_a_clock_that_was_ahead_runs_out_of_time_all_the_same() -> None:
    drive = driver({"groups": [{"timeouts": {"deploy": 60.0}}]}, 2, hanging((node(1), 1)))
    drive.now += 10 * YEAR
    while drive.rollout.groups["all"].phase == 0:
        drive.settle()
        assert drive.machines.begin() or drive.machines.finish()
    drive.now = 1000.0
    rollout = drive.run()
    assert (rollout.head.state, states(rollout), drive.now) == ("failed", "su", 1060.0)
    reasons = [decision.reason for decision in drive.log if "under a clock" in decision.reason]
    assert reasons == ["deploy began under a clock that was ahead: its time counts from now"]


def test_a_clock_that_steps_back_by_seconds_changes_no_phase() -> None:
    drive = driver({"groups": [{"timeouts": {"prepare": 60.0}}]}, 1, hanging((node(0), 0)))
    drive.settle()
    drive.machines.begin()
    drive.now -= 30.0
    drive.settle()
    assert drive.rollout.groups["all"].phase_since == 1000.0


def test_a_node_that_was_unknown_before_its_phase_began_again_is_asked_whatever_the_clocks_said() -> None:
    def outcome(name: str, phase: int, attempt: int) -> str:
        return "fail" if name == node(1) and phase == 0 and attempt == 1 else "hang"

    drive = driver({"groups": [{"timeouts": {"prepare": 60.0}}]}, 2, outcome)
    drive.settle()
    drive.machines.begin()
    drive.machines.finish()
    drive.now += 10 * YEAR
    drive.settle()
    assert (states(drive.rollout), drive.rollout.over) == ("uf", True)
    drive.now = 1000.0
    drive.write(commands.retry(drive.rollout, drive.now))
    drive.settle()
    drive.machines.begin()
    drive.settle()
    assert [str(progress.state) for progress in drive.rollout.nodes.values()] == ["unknown", "sent"]
    drive.machines.finish()
    drive.settle()
    assert [str(progress.state) for progress in drive.rollout.nodes.values()] == ["failure", "sent"]


def test_a_phase_that_ran_out_of_time_may_be_evaluated_instead() -> None:
    rules = {"on_timeout": "evaluate", "groups": [{"success_criteria": {"percent_successful_nodes": 60}}]}
    rollout = driver(rules, 3, hanging((node(1), 1))).run()
    assert (rollout.head.state, states(rollout)) == ("success", "sus")


def test_what_has_not_begun_when_time_runs_out_is_taken_back_and_what_runs_is_ended() -> None:
    drive = driver({"groups": [{"timeouts": {"prepare": 60.0}}]}, 3)
    drive.settle()
    drive.machines.begin(lambda name: name == node(0))
    drive.now += 60.0
    drive.settle()
    assert sorted(drive.machines.state.values()) == ["ENDING", "PROPOSED", "PROPOSED"]
    assert states(drive.rollout) == "uff"
    assert drive.rollout.head.state == "failed"


def test_a_rollout_is_not_over_before_that_was_taken_back() -> None:
    drive = driver({"groups": [{"timeouts": {"prepare": 60.0}}]}, 2)
    drive.settle()
    drive.now += 60.0
    while not drive.rollout.over:
        drive.turn()
    assert "TODO" not in drive.machines.state.values()


def test_nodes_that_were_not_sent_in_time_are_not_successful() -> None:
    criteria = {"success_criteria": {"percent_successful_nodes": 50}, "parallel_nodes": 1}
    drive = driver({"on_timeout": "evaluate", "groups": [criteria]}, 4, hanging((node(0), 0)))
    rollout = drive.run()
    assert rollout.groups["all"].unmet == ("percent_successful_nodes: 50 wanted, 0 of 4 (0%) successful",)
    assert states(rollout) == "unnn"


def test_a_group_does_not_wait_for_another_groups_node_beyond_its_own_time() -> None:
    groups = [{"name": "a"}, {"name": "b", "timeouts": {"prepare": 60.0}}]
    drive = driver({"groups": groups, "parallel_groups": 2}, 1, hanging((node(0), 0)))
    drive.settle()
    drive.machines.begin()
    drive.now += 60.0
    drive.settle()
    assert [str(record.state) for record in drive.rollout.groups.values()] == ["running", "failed"]
    assert drive.rollout.groups["b"].reason == "prepare"


def test_an_unknown_node_is_known_once_its_run_is_ended_and_no_other_group_sends_it() -> None:
    groups = [
        {"name": "a", "critical": False, "timeouts": {"prepare": 60.0}, "selectors": [{"node_names": ["n0"]}]},
        {"name": "b", "selectors": [{"node_names": ["n1"]}]},
        {"name": "c", "depends_on": ["b"]},
    ]
    drive = driver({"groups": groups}, 2, hanging((node(0), 0)))
    drive.settle()
    drive.machines.begin()
    drive.now += 60.0
    drive.settle()
    assert states(drive.rollout) == "us"
    drive.machines.outcome = all_well
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "fs"
    assert drive.rollout.nodes[node(0)].group == "a"
    drive.write(commands.retry(drive.rollout, drive.now))
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "ss"


def test_work_that_ends_well_before_it_is_told_to_end_counts() -> None:
    drive = driver({"groups": [{"critical": False, "timeouts": {"prepare": 60.0}}]}, 1)
    drive.settle()
    drive.machines.begin()
    drive.now += 60.0
    decided = step(drive.rollout, drive.machines.seen(drive.rollout), drive.now)
    drive.write(decided.decisions)  # unknown, and the driver ends
    assert states(drive.rollout) == "u"
    drive.machines.finish()
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "p"


def test_the_time_of_the_next_look_is_the_nearest_deadline() -> None:
    groups = [{"name": "a", "selectors": [{"node_names": ["n0"]}]}, {"name": "b", "timeouts": {"prepare": 70.0}}]
    drive = driver({"groups": groups, "parallel_groups": 2})
    drive.settle()
    assert drive.turn().due == 1070.0


# -- failures that reach further --


def three(first: dict[str, Any], **rules: Any) -> dict[str, Any]:
    """Group a of node 0, which is critical; b of node 1; c of the others."""
    a = {"name": "a", "selectors": [{"node_names": ["n0"]}], "success_criteria": {"percent_successful_nodes": 100}}
    b = {"name": "b", "critical": False, "selectors": [{"node_names": ["n1"]}]}
    return {"groups": [{**a, **first}, b, {"name": "c", "critical": False}], "parallel_groups": 2, **rules}


@pytest.mark.parametrize(
    ("reaction", "expected"),
    [
        ("continue", [("failed", "prepare"), ("success", None), ("success", None)]),
        ("stop", [("failed", "prepare"), ("success", None), ("failed", "stopped")]),
        ("cancel", [("failed", "prepare"), ("failed", "cancelled"), ("failed", "cancelled")]),
    ],
)
@pytest.mark.parametrize("of_group", [True, False])
def test_effects_of_a_critical_failure_on_other_groups(
    reaction: str, expected: list[tuple[str, str | None]], of_group: bool
) -> None:
    key = {"on_critical_failure": reaction}
    drive = driver(three(key) if of_group else three({}, **key), 4, failing((node(0), 0)))
    rollout = drive.run()
    assert [(str(record.state), record.reason) for record in rollout.groups.values()] == expected
    assert rollout.head.state == "failed"
    if reaction != "continue":
        drive.write(commands.resume(drive.rollout, drive.now, "me"))
        again = drive.run()
        assert [str(record.state) for record in again.groups.values()] == ["failed", "success", "success"]
        assert again.head.state == "failed"


def test_the_breaker_ends_a_rollout_that_loses_too_many_nodes() -> None:
    rules = {"max_in_flight": {"nodes": 1}, "breaker": {"maximum_failed_nodes": 1}}
    lost = [(node(number), 0) for number in range(10)]
    drive = driver(rules, 10, failing(*lost))
    rollout = drive.run()
    assert states(rollout) == "ff" + "n" * 8
    assert rollout.head.reason == "the breaker tripped: 2 of 10 nodes failed, and no more than 1 may" or (
        rollout.groups["all"].reason == "cancelled"
    )
    assert rollout.head.state == "failed"
    drive.machines.outcome = all_well
    drive.write(commands.resume(rollout, drive.now))
    assert states(drive.run()) == "ff" + "s" * 8


def test_a_group_stops_early_once_its_criteria_cannot_be_met() -> None:
    rules = {"stop_early": True, "groups": [{"parallel_nodes": 2, "success_criteria": {"maximum_failed_nodes": 1}}]}
    rollout = driver(rules, 10, failing(*[(node(number), 0) for number in range(10)])).run()
    assert states(rollout) == "ff" + "n" * 8
    assert rollout.groups["all"].unmet == ("maximum_failed_nodes: 1 allowed, 2 failed",)


def test_stopping_early_takes_back_what_has_not_begun() -> None:
    drive = driver(
        {"stop_early": True, "groups": [{"success_criteria": {"maximum_failed_nodes": 0}}]}, 3, failing((node(0), 0))
    )
    drive.settle()
    drive.machines.begin(lambda name: name == node(0))
    drive.machines.finish()
    drive.settle()
    assert states(drive.rollout) == "fnn"
    assert drive.rollout.nodes[node(1)].reason == "taken back before it was done"
    assert drive.machines.starts.total() == 1


# -- what people do --


def test_cancelling_takes_back_what_has_not_begun_and_ends_what_runs_and_resuming_goes_on() -> None:
    drive = driver({}, 3)
    drive.settle()
    drive.machines.begin(lambda name: name == node(0))
    drive.write(commands.cancel(drive.rollout, drive.now, "me", "lunch"))
    drive.settle()
    assert drive.rollout.head.state == "cancelling"
    assert states(drive.rollout) == "snn"
    with pytest.raises(Conflict, match="being cancelled"):
        commands.resume(drive.rollout, drive.now)
    drive.machines.finish()
    drive.settle()
    assert drive.rollout.head.state == "cancelled"
    assert states(drive.rollout) == "fnn"
    assert "Finish (cancelled by me: lunch)" in report(drive.rollout)
    with pytest.raises(Conflict, match="is over"):
        commands.cancel(drive.rollout, drive.now)
    drive.write(commands.resume(drive.rollout, drive.now, "me"))
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "fss"
    assert set(drive.machines.starts.values()) == {1}


def test_the_key_of_a_limited_label_may_hold_a_colon() -> None:
    site = {f"n{number}.example.com": Node(labels={"top:zone": "x"}) for number in range(5)}
    made = msgspec.convert({"groups": [{"name": "a"}], "max_in_flight": {"labels": {"top:zone": 3}}}, Strategy)
    drive = Driver(begin(made, site, 1000.0), Machines(all_well))
    drive.run()
    assert drive.most["label top:zone:x"] == 3


def test_cancelling_ends_also_what_still_runs_on_nodes_that_failed() -> None:
    drive = driver({"groups": [{"success_criteria": {"maximum_failed_nodes": 1}}]}, 2)
    drive.settle()
    both = {node(0): Seen(errors={"a": 1}, running=1), node(1): Seen(running=1)}
    drive.rollout = apply(drive.rollout, step(drive.rollout, both, drive.now).decisions)
    assert states(drive.rollout) == "fs"
    assert step(drive.rollout, both, drive.now).actions == (), "what runs there may run"
    drive.rollout = apply(drive.rollout, commands.cancel(drive.rollout, drive.now))
    assert set(watched(drive.rollout)) == {node(0), node(1)}
    assert {(action.directive, action.node) for action in step(drive.rollout, both, drive.now).actions} == {
        (Directive.CANCEL, node(0)),
        (Directive.CANCEL, node(1)),
    }
    left = {node(0): both[node(0)], node(1): Seen(errors={"a": 1})}
    for _ in range(5):
        drive.rollout = apply(drive.rollout, step(drive.rollout, left, drive.now).decisions)
    assert not drive.rollout.over, "it is not over before that is told to end"
    left[node(0)] = Seen(errors={"a": 1}, cancelling=1)
    for _ in range(5):
        drive.rollout = apply(drive.rollout, step(drive.rollout, left, drive.now).decisions)
    assert drive.rollout.head.state == "cancelled"


def test_a_rollout_that_cancels_itself_lets_what_runs_run_to_its_end() -> None:
    rules = {"breaker": {"maximum_failed_nodes": 0}, "max_in_flight": {"nodes": 2}}
    drive = driver(rules, 3, failing((node(0), 0)))
    drive.settle()
    drive.machines.begin()
    drive.machines.state[node(0), 0] = "ERROR"
    drive.settle()
    assert drive.rollout.head.state == "cancelling"
    assert drive.machines.state[node(1), 0] == "TRANSITION"
    assert drive.run().head.state == "failed"
    assert states(drive.rollout) == "fpn"


def test_retrying_sends_what_failed_again_and_what_depended_on_it() -> None:
    groups = [
        {"name": "a", "selectors": [{"node_names": ["n0", "n1"]}], "success_criteria": {"maximum_failed_nodes": 0}},
        {"name": "b", "depends_on": ["a"]},
    ]
    drive = driver(
        {"groups": groups}, 4, lambda name, phase, tries: "fail" if name == node(0) and phase and tries < 2 else "ok"
    )
    assert drive.run().head.state == "failed"
    assert states(drive.rollout) == "fsnn"
    drive.write(commands.retry(drive.rollout, drive.now, "me"))
    assert drive.run().head.state == "success"
    assert drive.rollout.nodes[node(0)].attempt == 2
    assert {place: starts for place, starts in drive.machines.starts.items() if starts > 1} == {(node(0), 1): 2}
    with pytest.raises(Conflict, match=r"^nothing failed in this rollout$"):
        commands.retry(drive.rollout, drive.now)


def test_what_is_put_back_waits_from_then_on_and_has_forgotten_why_it_failed() -> None:
    group = {"name": "a", "success_criteria": {"maximum_failed_nodes": 0}}
    drive = driver({"groups": [group]}, 2, failing((node(0), 0)))
    drive.run()
    drive.now += 100.0
    drive.write(commands.retry(drive.rollout, drive.now))
    drive.turn()
    there = drive.rollout.nodes[node(0)]
    assert (there.state, there.attempt, there.since, there.reason) == (NodeState.NOT_STARTED, 2, drive.now, None)
    drive.turn()
    record = drive.rollout.groups["a"]
    assert (record.state, record.since, record.reason) == (GroupState.NOT_STARTED, drive.now, None)


def test_retrying_takes_up_a_rollout_that_was_cancelled_before_any_node_began() -> None:
    drive = driver({}, 2)
    drive.write(commands.cancel(drive.rollout, drive.now))
    drive.settle()
    assert states(drive.rollout) == "nn"
    drive.write(commands.retry(drive.rollout, drive.now))
    assert drive.run().head.state == "success"
    assert {progress.reason for progress in drive.rollout.nodes.values()} == {None}


def test_retrying_reaches_nodes_that_failed_in_groups_that_succeeded() -> None:
    drive = driver({}, 4, lambda name, phase, tries: "fail" if (name, phase, tries) == (node(2), 0, 1) else "ok")
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "ssfs"
    drive.write(commands.retry(drive.rollout, drive.now))
    assert states(drive.run()) == "ssss"


def test_what_fails_faster_than_anybody_looks_is_retried_once() -> None:
    drive = driver({}, 2, failing((node(0), 0)))
    drive.run()
    for tries in (2, 3):
        drive.write(commands.retry(drive.rollout, drive.now))
        for _ in range(30):
            drive.turn()
            drive.machines.begin()
            drive.machines.finish()
        assert drive.machines.starts[node(0), 0] == tries
        assert drive.rollout.over


def test_retrying_sends_what_failed_otherwise_since_then() -> None:
    """Somebody retried a noderole by hand, and it failed again; or another of the node failed later."""
    drive = driver({}, 2, failing((node(0), 0)))
    drive.run()
    drive.machines.outcome = all_well
    drive.machines.generation[node(0), 0] += 1
    drive.write(commands.retry(drive.rollout, drive.now))
    assert states(drive.run()) == "ss"
    assert drive.machines.starts[node(0), 0] == 2


def test_retrying_survives_crashes() -> None:
    def stubborn(name: str, phase: int, tries: int) -> str:
        return "fail" if tries <= int(name[1]) and phase == int(name[1]) % 2 else "ok"

    for seed in range(50):
        drive = driver(
            {"groups": [{"name": "a", "success_criteria": {"percent_successful_nodes": 100}}, {"name": "b"}]},
            5,
            stubborn,
        )
        drive.crashes = Random(seed)
        drive.run()
        for _ in range(4):
            drive.write(commands.retry(drive.rollout, drive.now))
            drive.run()
        assert states(drive.rollout) == "sssss"
        assert drive.rollout.head.state == "success"
        assert all(
            starts == 1 + int(name[1]) * (phase == int(name[1]) % 2)
            for (name, phase), starts in drive.machines.starts.items()
        )


def test_an_accepted_failure_lets_others_go_on() -> None:
    groups = [
        {"name": "a", "selectors": [{"node_names": ["n0"]}], "success_criteria": {"minimum_successful_nodes": 1}},
        {"name": "b", "depends_on": ["a"]},
    ]
    drive = driver({"groups": groups}, 3, failing((node(0), 0)))
    drive.run()
    with pytest.raises(Conflict, match="was never sent"):
        commands.accept(drive.rollout, "b", "why not", drive.now)
    with pytest.raises(Conflict, match="give one"):
        commands.accept(drive.rollout, "a", " ", drive.now)
    drive.write(commands.accept(drive.rollout, "a", "node is in repair", drive.now, "me"))
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "fss"
    assert "<FAILED, accepted: node is in repair>" in report(drive.rollout)


def test_a_failure_of_no_weight_is_accepted_for_those_that_depend_on_it() -> None:
    """The rollout has succeeded, and left them out."""
    groups = [
        {"name": "a", "critical": False, "selectors": [{"node_names": ["n0"]}],
         "success_criteria": {"minimum_successful_nodes": 1}},
        {"name": "b", "critical": False, "depends_on": ["a"]},
    ]  # fmt: skip
    drive = driver({"groups": groups}, 3, failing((node(0), 0)))
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "fnn"
    drive.write(commands.accept(drive.rollout, "a", "node is in repair", drive.now, "me"))
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "fss"
    drive.write(commands.accept(drive.rollout, "a", "it stays there", drive.now, "me"))
    assert drive.rollout.over, "nobody waits for it any more"


def test_retrying_sends_the_nodes_of_a_group_whose_failure_was_accepted() -> None:
    rule = {"success_criteria": {"percent_successful_nodes": 100}}
    drive = driver({"groups": [{"name": "a", **rule}]}, 2, failing((node(0), 0)))
    drive.run()
    drive.write(commands.accept(drive.rollout, "a", "one is enough", drive.now))
    assert drive.run().head.state == "success"
    drive.machines.outcome = all_well
    drive.write(commands.retry(drive.rollout, drive.now))
    assert drive.run().head.state == "success"
    assert states(drive.rollout) == "ss"


def test_retrying_sends_what_failed_in_an_accepted_group_too() -> None:
    groups = [{"name": "a", "success_criteria": {"percent_successful_nodes": 100}}]
    drive = driver({"groups": groups}, 3, failing((node(0), 1)))
    drive.run()
    drive.write(commands.accept(drive.rollout, "a", "two are enough", drive.now, "me"))
    assert drive.run().head.state == "success"
    drive.write(commands.retry(drive.rollout, drive.now))
    assert states(drive.run()) == "fss"
    assert drive.machines.starts[node(0), 1] == 2
    assert drive.rollout.head.state == "failed"  # who accepted it did not know of this failure


def test_resuming_a_rollout_requires_the_newest_attempt() -> None:
    groups = [
        {"name": "a", "critical": True, "selectors": [{"node_names": ["n0"]}],
         "success_criteria": {"minimum_successful_nodes": 1}},
        {"name": "b", "critical": True, "selectors": [{"node_names": ["n1"]}],
         "success_criteria": {"minimum_successful_nodes": 1}},
    ]  # fmt: skip
    drive = driver({"groups": groups}, 2, failing((node(0), 0), (node(1), 0)))
    drive.run()
    drive.write(commands.retry(drive.rollout, drive.now, attempt=1))
    drive.run()
    with pytest.raises(Conflict, match="the rollout is at attempt 2 by now, not 1"):
        commands.retry(drive.rollout, drive.now, attempt=1)
    with pytest.raises(Conflict, match="the rollout is at attempt 2 by now, not 1"):
        commands.resume(drive.rollout, drive.now, attempt=1)
    with pytest.raises(Conflict, match="group a is at attempt 2 by now, not 1"):
        commands.accept(drive.rollout, "a", "it may stay so", drive.now, attempt=1)
    drive.write(commands.accept(drive.rollout, "a", "it may stay so", drive.now, attempt=2))
    assert drive.run().head.state == "failed"
    assert commands.accept(drive.rollout, "a", "again", drive.now, attempt=2) == [], (
        "it would go on for group b's failure"
    )


def test_what_makes_no_sense_is_refused() -> None:
    drive = driver({})
    with pytest.raises(Conflict, match="does not pause"):
        commands.promote(drive.rollout, "all", 1)
    with pytest.raises(NotFound, match="no group al; it has all"):
        commands.promote(drive.rollout, "al", 1)
    with pytest.raises(Conflict, match="wait until it is over"):
        commands.retry(drive.rollout, drive.now)
    with pytest.raises(Conflict, match="cannot be resumed: it is running"):
        commands.resume(drive.rollout, drive.now)
    with pytest.raises(Conflict, match="has not failed"):
        commands.accept(drive.rollout, "all", "x", drive.now)


# -- what happens meanwhile --


def test_a_node_that_is_deleted_has_failed() -> None:
    drive = driver({}, 2)
    drive.settle()
    drive.machines.gone.add(node(0))
    drive.run()
    assert drive.rollout.nodes[node(0)].reason == "the node does not exist any more"
    assert states(drive.rollout) == "fs"


def test_noderoles_that_somebody_proposes_meanwhile_are_a_failure() -> None:
    drive = driver({}, 2)
    drive.settle()
    drive.machines.state[node(0), 0] = "PROPOSED"
    drive.run()
    assert drive.rollout.nodes[node(0)].reason == "its noderoles were proposed again by hand"


def test_a_retried_node_waits_for_the_error_above_it_to_be_retried_too() -> None:
    drive = driver({}, 1, failing((node(0), 0)))
    drive.run()
    drive.write(commands.retry(drive.rollout, drive.now))
    while drive.turn().decisions:
        pass
    blocked = step(drive.rollout, {node(0): Seen(stuck=1, reason="x@n9 in ERROR")}, drive.now)
    assert (blocked.decisions, blocked.actions) == ((), ())
    assert [
        action.directive for action in step(drive.rollout, {node(0): Seen(errors={"role": 1})}, drive.now).actions
    ] == [Directive.RETRY]


def test_a_step_that_changes_nothing_gives_nothing() -> None:
    drive = driver({})
    drive.settle()
    drive.machines.begin()
    before = drive.rollout
    drive.settle()
    again = step(drive.rollout, drive.machines.seen(drive.rollout), drive.now)
    assert (again.decisions, again.actions) == ((), ())
    assert before.nodes.keys() == drive.rollout.nodes.keys()


# -- sizes --


def large(selectors: Callable[[int], list[dict[str, list[str]]]]) -> tuple[Strategy, dict[str, Node]]:
    site = {
        f"node-{number:05}.rack-{number % 40:02}.region.example.com": Node(
            tags=(f"tag{number % 200}",), rack=f"rack-{number % 40:02}", labels={"zone": f"z{number % 3}"}
        )
        for number in range(5000)
    }
    groups = [
        {
            "name": f"group-{number:03}",
            "depends_on": [f"group-{number - 1:03}"] if number % 10 else [],
            "selectors": selectors(number),
            "success_criteria": {"percent_successful_nodes": 50},
        }
        for number in range(200)
    ]
    return msgspec.convert({"groups": groups, "max_in_flight": {"rack": 1000}}, Strategy), site


@pytest.mark.parametrize(
    "selectors",
    [lambda number: [{"node_tags": [f"tag{number}"]}, {"rack_names": [f"rack-{number % 40:02}"]}], lambda _: []],
    ids=["overlapping", "every node in every group"],
)
def test_five_thousand_nodes_in_two_hundred_groups(selectors: Callable[[int], list[dict[str, list[str]]]]) -> None:
    made, site = large(selectors)
    before = time.process_time()
    plan(made, site)
    assert time.process_time() - before < 2.0  # 0.1 measured
    before = time.process_time()
    rollout = begin(made, site, 0.0)
    drive = Driver(rollout, Machines())
    drive.settle()
    drive.machines.begin()
    drive.machines.finish()
    drive.settle()
    assert time.process_time() - before < 4.0
    sizes = [len(msgspec.json.encode(record)) for record in parts(drive.rollout).values()]
    assert max(sizes) < 256 << 10
    assert ended(reread(drive.rollout)) == ended(drive.rollout)


@pytest.mark.parametrize(
    "reason", ["because " * 100, "\x1b" * 9000, "\u20ac" * 9000], ids=["words", "controls", "signs"]
)
@pytest.mark.parametrize("errors", [1, 22, 400])
def test_the_znodes_are_small_enough_whatever_becomes_of_the_nodes(errors: int, reason: str) -> None:
    broken = {f"{'r' * 60}{number:03}": 7 for number in range(errors)}
    site = {
        f"{number:03}{'x' * 60}.{'y' * 63}.{'z' * 63}.{'w' * 57}.com": Node(rack="r" * 100) for number in range(700)
    }
    group = {"name": "g" * 63, "success_criteria": {"percent_successful_nodes": 100}}
    made = msgspec.convert({"groups": [group], "max_in_flight": {"rack": 1000}}, Strategy)
    drive = Driver(begin(made, site, 1763704800.123456), Machines(lambda *_: "fail"))
    drive.machines.seen = lambda rollout: {  # type: ignore[method-assign]
        name: Seen(errors=broken, reason=reason) for name in rollout.nodes
    }
    drive.run()
    drive.write(commands.accept(drive.rollout, "g" * 63, reason, 1763704800.123456, "somebody"))
    assert states(drive.rollout) == "f" * 700
    assert max(len(msgspec.json.encode(record)) for record in parts(drive.rollout).values()) < RECORD_BYTES
    assert len(msgspec.json.encode(drive.rollout.groups["g" * 63])) < 4096
    assert reread(drive.rollout) == drive.rollout


def test_a_node_with_forty_old_errors_is_retried_and_one_of_them_that_fails_anew_is_seen() -> None:
    old = {f"role-{number}": 3 for number in range(40)}
    progress = Progress(state=NodeState.SENDING).noting(old)
    assert progress.noted(old)
    assert progress.noted({"role-7": 3})
    assert not progress.noted({**old, "role-7": 4})
    assert not progress.noted({**old, "role-40": 3})
    many = {f"role-{number:03}": 3 for number in range(200)}
    assert (progress.noting(many).errors_left_out, progress.noting(many).noted(many)) == (72, False)


def test_a_group_of_every_other_node_is_small_enough() -> None:
    site = {f"node-{number:05}.example.com": Node(tags=("even",) if number % 2 else ()) for number in range(10_000)}
    made = msgspec.convert({"groups": [{"name": "g", "selectors": [{"node_tags": ["even"]}]}]}, Strategy)
    rollout = begin(made, site, 1.0)
    assert len(rollout.members["g"]) == 5000
    assert max(len(msgspec.json.encode(record)) for record in parts(rollout).values()) < RECORD_BYTES


def test_decisions_say_why() -> None:
    drive = driver({}, 1)
    drive.run()
    assert all(isinstance(decision, Decision) and decision.reason for decision in drive.log)


@needs("airship")
def test_a_document_of_airship_loads_and_plans() -> None:
    made = reading.load(CORPORA / "airship" / "treasuremap-global-deployment-strategy.yaml")
    planned = plan(made, {"m1.example.com": Node(tags=("masters",)), "w1.example.com": Node(tags=("workers",))})
    assert planned.levels == (("masters",), ("workers",))
    assert planned.members == {"masters": ("m1.example.com",), "workers": ("w1.example.com",)}
    assert not planned.ungrouped


def test_retrying_asks_first_what_became_of_unknown_nodes() -> None:
    rules = {"on_timeout": "evaluate", "groups": [{"success_criteria": {"percent_successful_nodes": 60}}]}
    drive = driver(rules, 3, hanging((node(1), 1)))
    assert (drive.run().head.state, states(drive.rollout)) == ("success", "sus")
    drive.machines.outcome = all_well
    drive.machines.finish()  # its run is ended
    drive.write(commands.retry(drive.rollout, drive.now, "me"))
    assert (drive.run().head.state, states(drive.rollout)) == ("success", "sss")
    assert drive.machines.starts[node(1), 1] == 2
