"""Saved plans as values of their caller: a plan is carried out one time, and a forged one is refused, at a bounded price."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, Invalid, TimedOut
from nodepool_ocb.model import keyed, paths
from nodepool_ocb.model.records import Delete
from nodepool_ocb.operations.calls import saving
from nodepool_ocb.operations.nodes.changing import NodeSet
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.plans import moved, saved
from nodepool_ocb.operations.plans.saved import PlanBasis, SavedPlan
from nodepool_ocb.operations.requests.creating import RequestCreate
from nodepool_ocb.store import keyed as stored
from nodepool_ocb.store.client.session import Session
from tests.operations.performing import InterruptedPerformer, calm, faster_writer

N1 = "n1.example.com"
NOW: Final = datetime(2026, 1, 31, 18, 0, tzinfo=UTC)
PLAN: Final = SavedPlan(
    cluster="c",
    operation="node/hold",
    fields={},
    by="ann",
    host="desk",
    at=NOW,
    expires=saved.end(NOW),
    rows=(),
    records={f"/ocb/nodes/{N1}": 7},
).sealed()


def planned(settings: ZooKeeperSettings, operation: Operation[Any], **call: object) -> SavedPlan:
    performer = calm(settings, dry_run=True, save=True, **call)
    performer.perform(operation)
    plan = saving.plan_of(performer)
    assert plan is not None
    return plan


def requests(session: Session) -> int:
    return len(session.children(paths.REQUESTS) or ())


# -- values --

#: Values that no saved plan has, each with the words of its refusal.
FORGED: Final[tuple[tuple[Mapping[str, Any], str], ...]] = (
    ({"by": "B" * 900_000}, "by: 'BBB"),
    ({"by": "root\x1b[2J"}, "by: .* is no name"),
    ({"by": "root@boss: approved"}, "by: .* is no name"),
    ({"by": ""}, "by: '' is no name"),
    ({"host": "desk\nadmin"}, "host: .* is no name"),
    ({"cluster": "c\x07"}, "cluster: .* is no name"),
    ({"reason": "B" * 2001}, "reason: a reason has at most 2000"),
    ({"reason": "line\nline"}, "reason: .*no control characters"),
    *(
        ({"records": {path: 1}}, "records: .* is the path of no record")
        for path in ("", "/", "/ocb", "/ocb/", "x", "/zookeeper/config", "/ocb/../x", "/ocb/a/.", "/ocb//x", "/ocb/x\0")
    ),
    ({"records": {"/ocb/" + "x" * 1024: 1}}, "records: .* is the path of no record"),
)


@pytest.mark.parametrize(("values", "words"), FORGED, ids=range(len(FORGED)))
def test_a_plan_with_values_that_no_saved_plan_has_is_refused(values: Mapping[str, Any], words: str) -> None:
    PLAN.require_whole()
    with pytest.raises(Invalid, match=words) as refused:
        replace(PLAN, **values).sealed().require_whole()
    assert len(str(refused.value)) < 500


def test_a_plan_of_the_future_is_refused_and_a_clock_may_be_a_little_behind() -> None:
    PLAN.require_valid("c", NOW.timestamp() - saved.AHEAD_SECONDS)
    for at in (NOW + timedelta(seconds=saved.AHEAD_SECONDS + 1), datetime.fromisoformat("9999-12-31T23:59:59-14:00")):
        with pytest.raises(Invalid, match="at: this plan is said to be made in the future"):
            replace(PLAN, at=at, expires=at).require_valid("c", NOW.timestamp())
    with pytest.raises(Conflict, match="has expired"):
        PLAN.require_valid("c", NOW.timestamp() + saved.VALID_SECONDS)


def test_a_plan_is_saved_with_any_reason_and_any_login(world: Session, zk_settings: ZooKeeperSettings) -> None:
    performer = calm(zk_settings, dry_run=True, save=True, reason="new\nkernel " + "x" * 3000)
    performer.call = replace(performer.call, login="Ann\x1b Smith", host="")
    performer.perform(NodeSet(nodes=(N1,), assignments=("rack=r7",)))
    plan = saving.plan_of(performer)
    assert plan is not None
    plan.require_whole()
    assert (plan.author, (plan.reason or "")[:11]) == ("Ann__Smith@unknown", "new kernel ")
    calm(zk_settings, plan=plan).perform(NodeSet(nodes=(N1,), assignments=("rack=r7",)))
    assert world.get(paths.call(keyed.plan_id(plan.digest))) is not None


# -- one time --


def test_of_two_calls_that_carry_out_one_plan_at_once_one_writes(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    for operation in (RequestCreate(labels=("small",)), NodeSet(nodes=(N1,), assignments=("rack=r7",))):
        plan = planned(zk_settings, operation)
        before = requests(world)

        def other(plan: SavedPlan = plan, operation: Operation[Any] = operation) -> None:
            calm(zk_settings, plan=plan).perform(operation)

        with faster_writer(other) as acted, pytest.raises(Conflict, match="the plan of ann@desk was carried out at 2"):
            calm(zk_settings, plan=plan).perform(operation)
        assert acted
        assert requests(world) - before == isinstance(operation, RequestCreate)


def test_a_plan_is_carried_out_in_a_cluster_without_the_folder_of_marks(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    folder = world.get(paths.CALLS)
    assert folder is not None
    world.commit([Delete(paths.CALLS, folder.version)])
    operation = RequestCreate(labels=("small",))
    plan = planned(zk_settings, operation)
    calm(zk_settings, plan=plan, dry_run=True).perform(operation)
    assert world.get(paths.CALLS) is None
    calm(zk_settings, plan=plan).perform(operation)
    with pytest.raises(Conflict, match="was carried out"):
        calm(zk_settings, plan=plan).perform(operation)
    assert requests(world) == 1


def test_the_mark_of_a_plan_stays_longer_than_the_plan_is_valid_and_goes_then(
    world: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved.VALID_SECONDS + saved.AHEAD_SECONDS < keyed.PLAN_KEPT_SECONDS
    operation = RequestCreate(labels=("small",))
    plan, later = planned(zk_settings, operation), planned(zk_settings, operation, reason="later")
    calm(zk_settings, plan=plan).perform(operation)
    monkeypatch.setattr(stored, "KEPT_SECONDS", -3600.0)
    assert stored.sweep(world) == 0
    monkeypatch.setattr(stored, "PLAN_KEPT_SECONDS", -3600.0)
    calm(zk_settings, plan=later).perform(operation)
    assert world.children(paths.CALLS) == [keyed.plan_id(later.digest)]


# -- the price and the words of a refusal --


def test_a_refusal_about_many_records_names_three_and_takes_no_long_time(world: Session) -> None:
    known = {f"/ocb/nodes/n{number}.example.com": 1 for number in range(50_000)}
    others = dict.fromkeys(known, 2)
    planned = PlanBasis(at=0.0, rows=(), records=known)
    begun = time.process_time()
    text = moved.since(world, planned, PlanBasis(at=0.0, rows=(), records=others))
    created = {f"/ocb/nodes/m{number}.example.com": 0 for number in range(50_000)}
    left_out = moved.since(world, planned, PlanBasis(at=0.0, rows=(), records=created))
    assert time.process_time() - begun < 3.0
    assert (text.count("node n"), text.endswith("; and 49997 more have changed")) == (3, True)
    assert left_out.endswith("node n2.example.com, and 49997 more")


def test_a_refusal_ends_at_the_deadline_of_its_call(world: Session, zk_settings: ZooKeeperSettings) -> None:
    late = InterruptedPerformer(zk_settings, lambda: None)
    late.deadline = time.monotonic() - 1.0
    with pytest.raises(TimedOut):
        moved.newest_changes(world, [f"/ocb/nodes/{N1}"], late.in_time)


def test_a_record_that_the_plan_alone_names_is_not_read(world: Session, zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings, reason="CONFIDENTIAL").perform(NodeSet(nodes=(N1,), assignments=("rack=r7",)))
    planned = PlanBasis(at=0.0, rows=(), records={f"/ocb/nodes/{N1}": 1})
    text = moved.since(world, planned, PlanBasis(at=0.0, rows=(), records={}))
    assert text == f"it no longer concerns node {N1}"
