"""A launcher writes into the journal: the end of each request, and both ends of each node's life. Real processes."""

from __future__ import annotations

from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.pool import PoolNodeState, RequestState
from nodepool_ocb.store import journal
from tests.launcher.launcher_fleet import LauncherFleet


def entries(fleet: LauncherFleet) -> list[Entry]:
    numbers = journal.numbers(fleet.session, pool=True)
    return [each.entry for each in journal.read(fleet.session, numbers, pool=True) if each.entry is not None]


def verbs(fleet: LauncherFleet) -> list[str]:
    return [each.verb for each in entries(fleet)]


def test_a_request_has_one_entry_and_its_node_one_at_each_end(launchers: LauncherFleet) -> None:
    fleet = launchers
    fleet.launcher(fleet.cloud("north")).start()
    request = fleet.request("small")
    fleet.fulfilled(request)
    (node,) = fleet.nodes()
    fleet.give_back(request, fleet.take(request))
    fleet.until(lambda: not fleet.nodes(), "the node is deleted")
    launch, fulfil, delete = entries(fleet)
    assert [launch.verb, fulfil.verb, delete.verb] == ["launch node", "fulfil request", "delete node"]
    assert {request, node, "label small"} <= {*launch.subjects} & {*fulfil.subjects} & {*delete.subjects}
    (effect,) = launch.changes
    assert {each.field: each.new for each in effect.fields}.items() >= {
        "labels": ["small"], "request": request, "pool": "north/main"
    }.items()  # fmt: skip
    assert delete.reason == "it was returned"
    assert fulfil.reason is not None
    assert fulfil.reason.startswith("it waited ")
    assert journal.numbers(fleet.session) == []


def test_a_failed_request_and_each_failed_launch_give_their_reasons(launchers: LauncherFleet) -> None:
    fleet = launchers
    cloud = fleet.cloud(
        "north", options={"faults": [{"call": "create", "do": "refuse", "reason": "the disk is broken"}]}
    )
    cloud["launch-retries"] = 1
    fleet.launcher(cloud).start()
    fleet.until_state(fleet.request("small"), RequestState.FAILED)
    fleet.until(lambda: not fleet.nodes(), "the failed node is deleted")
    failed, refused = entries(fleet)
    assert (failed.verb, refused.verb) == ("fail node", "fail request"), "the end of a failed node is not told twice"
    assert "the disk is broken" in (failed.reason or "")
    assert "the disk is broken" in (refused.reason or "")


def test_the_end_of_a_requests_time_and_of_a_hold_are_told(launchers: LauncherFleet) -> None:
    fleet = launchers
    fleet.launcher(fleet.cloud("north")).start()
    held = fleet.request("small")
    fleet.fulfilled(held)
    locks = fleet.take(held)
    (node,) = fleet.nodes()
    fleet.mark(node, PoolNodeState.HOLD, hold_expiration=0.2)
    fleet.locks.release(locks[0])
    fleet.until(lambda: "delete node" in verbs(fleet), "the held node is deleted")
    assert "it was held for more than" in (entries(fleet)[-1].reason or "")
    late = fleet.request("nowhere", expires=fleet.session.now() + 0.3, provider="north")
    fleet.until(lambda: fleet.read(late) is None or fleet.read(late).state is RequestState.FAILED, "it ended")  # type: ignore[union-attr]
    fleet.until(lambda: fleet.read(late) is None, "it is deleted")
    assert verbs(fleet)[-1] == "expire request"
