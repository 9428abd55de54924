"""A write that must carry out a plan, while others write: no change fits between the comparison and the write."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import VersionDiffers
from nodepool_ocb.model import limits, paths
from nodepool_ocb.operations.calls import saving
from nodepool_ocb.operations.nodes.changing import NodeSet
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.operations.performing import InterruptedPerformer, calm, faster_writer

N1 = "n1.example.com"


def planned(settings: ZooKeeperSettings, operation: Operation[Any]) -> SavedPlan:
    performer = calm(settings, dry_run=True, save=True)
    performer.perform(operation)
    plan = saving.plan_of(performer)
    assert plan is not None
    return plan


def rack(session: Session, node: str) -> str | None:
    found = load_world(session).nodes[node].record
    assert found is not None
    return found.rack


def test_a_change_after_the_decision_ends_the_call_without_a_write(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    operation = NodeSet(nodes=(N1,), assignments=("rack=r7",))

    def other() -> None:
        calm(zk_settings, reason="first").perform(NodeSet(nodes=(N1,), assignments=("labels.zone=b",)))

    interrupted = InterruptedPerformer(zk_settings, other, plan=planned(zk_settings, operation))
    with pytest.raises(VersionDiffers, match=f"node {N1} has changed; its newest change is node set by ann@desk"):
        interrupted.perform(operation)
    late = calm(zk_settings, plan=planned(zk_settings, operation))
    changed = NodeSet(nodes=(N1,), assignments=("labels.zone=c",))
    with faster_writer(lambda: calm(zk_settings).perform(changed)) as acted, pytest.raises(VersionDiffers):
        late.perform(operation)
    assert acted
    assert rack(world, N1) is None


def test_a_change_of_another_record_does_not_end_the_call(world: Session, zk_settings: ZooKeeperSettings) -> None:
    operation = NodeSet(nodes=(N1,), assignments=("rack=r7",))
    plan = planned(zk_settings, operation)
    created = planned(zk_settings, NodeCreate(name="n8.example.com", node=NewNode()))
    with faster_writer(lambda: calm(zk_settings).perform(NodeCreate(name="n9.example.com", node=NewNode()))):
        calm(zk_settings, plan=plan).perform(operation)
    calm(zk_settings, plan=created).perform(NodeCreate(name="n8.example.com", node=NewNode()))
    assert rack(world, N1) == "r7"
    assert {"n8.example.com", "n9.example.com"} <= load_world(world).nodes.keys()


def test_a_plan_of_several_transactions_goes_on_after_its_first_and_with_nothing_else(
    world: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"p{number}.example.com" for number in range(4)]
    for name in names:
        calm(zk_settings).perform(NodeCreate(name=name, node=NewNode(tags=("part",))))
    monkeypatch.setattr(limits, "MOST_CHANGES", 2)
    operation = NodeSet(selector="tag:part", assignments=("rack=r7",))
    plan = planned(zk_settings, operation)
    real, commits = Session.commit, list[int]()

    def commit(session: Session, changes: Any) -> Any:
        if any(change.path == paths.node(names[3]) for change in changes) and not commits:
            commits.append(1)
            monkeypatch.setattr(Session, "commit", real)
            calm(zk_settings).perform(NodeSet(nodes=(names[3],), assignments=("labels.zone=b",)))
        return real(session, changes)

    monkeypatch.setattr(Session, "commit", commit)
    with pytest.raises(VersionDiffers, match=f"node {names[3]} has changed.*the changes before this stay"):
        calm(zk_settings, plan=plan).perform(operation)
    assert commits
    assert rack(world, names[3]) is None
