"""Verbs that direct rollouts, without a command line."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.executions.watched import NO_ANNEALER
from nodepool_ocb.operations.rollouts.directing import RolloutCancel
from nodepool_ocb.rollout import plan, reading
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.world.load import load_world
from tests.cli.rollouts.driving import LAB, STRATEGY, build
from tests.operations.performing import calm


def test_after_a_conflict_a_rollout_that_another_cancelled_has_nothing_to_do(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(zk_session)
    nodes = inventory(load_world(zk_session), LAB)
    identity = rollouts.begin(
        zk_session, LAB, plan.begin(reading.load(STRATEGY, called="site.yaml"), nodes, 1.0, "ann")
    )
    real, met = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        met.append(len(changes))
        if len(met) == 1:
            first = calm(zk_settings).perform(RolloutCancel(reason="first")).answer
            assert first.explanations == (f"rollout {LAB}/{identity}: cancelled by ann: first",)
        return real(session, changes)

    monkeypatch.setattr(Session, "commit", commit)
    done = calm(zk_settings).perform(RolloutCancel(reason="second"))
    assert (done.rows, done.answer.explanations, done.answer.after) == ((), (), (NO_ANNEALER,))
    assert done.answer.row is not None
    assert (done.answer.row.state, done.answer.row.reason) == ("cancelling", "cancelled by ann: first")
    assert len(met) == 2
