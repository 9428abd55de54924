"""Rollouts as they are shown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Json, LockOwner
from nodepool_ocb.rollout.records import CANCELLED, GroupState, NodeState, Rollout, RolloutState
from nodepool_ocb.rollout.strategy import Batch, Criteria, Group
from nodepool_ocb.views.executions import Awaited
from nodepool_ocb.views.rollouts import lines, rows, tables
from nodepool_ocb.views.view import plain
from tests.views.small_rollouts import in_state, rollout_of

KEY = Key("lab", "0000000007")
HOLDER = LockOwner(daemon="a1", host="h1", pid=7, purpose="drives", since=1.0)
HEAD = (
    "rollout",
    "deployment",
    "id",
    "strategy",
    "state",
    "reason",
    "since",
    "started",
    "attempt",
    "by",
    "again",
    "task_run",
    "paused",
)


def failed() -> Rollout:
    """Group a, of all nodes, has failed at one of them and was accepted; b waits for it."""
    made = rollout_of(Group(name="a", batches=(Batch(nodes=1),)), Group(name="b", depends_on=("a",)))
    made = in_state(
        made, "a", GroupState.FAILED, attempt=1, turn=1, detail="1 failed", accepted="it is old", reason="deploy"
    )
    lost = replace(made.nodes["ntp01"], state=NodeState.FAILURE, reason="it broke", group="a", since=9.0)
    return replace(made, nodes={**made.nodes, "ntp01": lost})


def test_a_rollout_at_a_glance() -> None:
    shown = plain(rows.row(KEY, failed().head, HOLDER, {}))
    assert list(shown) == [*HEAD, "groups", "nodes", "driver"]
    assert (shown["rollout"], shown["state"], shown["groups"], shown["nodes"]) == ("lab/0000000007", "running", 2, 12)
    assert shown["driver"] == {"daemon": "a1", "host": "h1", "pid": 7, "purpose": "drives", "since": 1.0}
    assert tables.words(rows.row(KEY, failed().head, HOLDER, {})).driver == "a1 on h1"
    assert tables.words(rows.row(KEY, failed().head, None, {})).driver is None


def test_a_document_has_the_groups_in_their_turn_the_nodes_by_state_and_what_to_do_next() -> None:
    document = rows.document(KEY, failed(), None)
    shown = plain(document)
    assert list(shown) == [*HEAD, "groups", "nodes", "driver", "finish", "failed", "next"]
    assert [(each["group"], each["state"]) for each in shown["groups"]] == [("a", "failed"), ("b", "not started")]
    assert (shown["nodes"]["failure"], len(shown["nodes"]["not started"])) == (("ntp01",), 11)
    assert list(shown["nodes"]) == ["failure", "not started"]
    assert shown["failed"] == [
        {"node": "ntp01", "state": "failure", "group": "a", "since": 9.0, "attempt": 1, "reason": "it broke"}
    ]
    assert tables.about(document).nodes == "1 failure, 11 not started"


def test_a_group_at_a_glance_says_where_it_is_and_how_its_nodes_fare() -> None:
    begun, waiting = rows.document(KEY, failed(), None).groups
    assert (begun.batch, begun.phase is not None, begun.nodes) == ("1/2", True, {"failure": 1, "not started": 11})
    assert (waiting.batch, waiting.phase, waiting.depends_on) == (None, None, ("a",))
    assert list(plain(begun)) == [
        *("group", "critical", "state", "phase", "batch", "members", "nodes", "since", "reason", "detail", "unmet"),
        *("accepted", "by", "attempt", "depends_on"),
    ]
    words = tables.group_words(begun)
    assert (words.state, words.detail, words.nodes) == ("failed, accepted", "it is old", "1 failure, 11 not started")


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ((Batch(nodes=1), Batch(percent=50), Batch(percent=100)), "1/3"),
        ((Batch(nodes=1), Batch(percent=50)), "1/3"),
        ((Batch(nodes=1), Batch(nodes=12), Batch(percent=100)), "1/2"),
        ((Batch(nodes=12),), None),
    ],
)
def test_a_group_has_no_batch_after_that_which_sends_all_twelve(sizes: tuple[Batch, ...], shown: str | None) -> None:
    rollout = in_state(rollout_of(Group(name="g", batches=sizes)), "g", GroupState.RUNNING, attempt=1)
    assert rows.group_row(rollout, "g").batch == shown


def test_a_report_and_the_end_of_a_wait_are_the_document_with_more() -> None:
    reported = rows.reported(rows.document(KEY, failed(), None), failed())
    assert list(plain(reported))[-2:] == ["next", "report"]
    assert reported.report.startswith("Start\n|\n")
    awaited = plain(Awaited("failed", reported))
    assert list(awaited)[:2] == ["outcome", "rollout"]
    assert list(awaited)[-1] == "report"


def test_what_is_watched_are_nodes_then_groups_then_the_rollout_each_a_line() -> None:
    found: Mapping[tuple[str, str], Mapping[str, Json]] = {
        name: plain(line) for name, line in rows.watched(KEY, failed(), HOLDER)
    }
    assert list(found)[-3:] == [("group", "a"), ("group", "b"), ("rollout", "")]
    node = found["node", "ntp01"]
    assert list(node.items())[:4] == [
        ("kind", "node"),
        ("rollout", str(KEY)),
        ("node", "ntp01"),
        ("state", "failure"),
    ]
    assert list(found["rollout", ""])[:3] == ["kind", "rollout", "deployment"]
    assert plain(rows.DeletedRollout(rollout=str(KEY))) == {"kind": "rollout", "rollout": str(KEY), "state": None}


def test_a_picture_of_many_groups_has_those_at_work_first() -> None:
    rollout = rollout_of(*(Group(name=f"g{number:02}") for number in range(40)))
    rollout = in_state(rollout, "g39", GroupState.RUNNING)
    picture = tables.picture(rows.document(KEY, rollout, None))
    assert picture.head == f"rollout {KEY}: running, 0 of 12 nodes done; 30 of 40 groups, those at work first"
    assert (len(picture.groups), picture.groups[0].group) == (30, "g39")


@pytest.mark.parametrize(("percent", "offered"), [(100, False), (50, True)])
def test_a_resume_is_offered_only_where_a_group_that_was_cancelled_can_still_succeed(
    percent: int, offered: bool
) -> None:
    group = Group(name="g", critical=True, success_criteria=Criteria(percent_successful_nodes=percent))
    rollout = in_state(rollout_of(group), "g", GroupState.FAILED, reason=CANCELLED)
    node = rollout.members["g"][0]
    lost = replace(rollout.nodes[node], state=NodeState.FAILURE)
    head = replace(rollout.head, state=RolloutState.CANCELLED)
    rollout = replace(rollout, head=head, nodes={**rollout.nodes, node: lost})
    retry, *resume = lines.all_of("lab/7", rollout)
    assert retry == "nodepool-ocb rollout retry lab/7"
    assert (bool(resume), "resume" in lines.advice("lab/7", rollout)) == (offered, offered)


def test_what_to_do_about_an_end_that_is_not_well() -> None:
    rollout = failed()
    cancelled = replace(rollout, head=replace(rollout.head, state=RolloutState.CANCELLED, attempt=2))
    assert lines.advice("lab/7", cancelled) == "to go on: nodepool-ocb rollout resume lab/7 --attempt 2"
    lost = replace(rollout, head=replace(rollout.head, state=RolloutState.FAILED))
    assert lines.advice("lab/7", lost) == "mend the cause, then: nodepool-ocb rollout retry lab/7"
