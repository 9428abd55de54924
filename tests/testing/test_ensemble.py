"""The ensemble of the tests: what is done to its members has the effect that storms count on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with Ensemble() as three:
        yield three


@pytest.mark.long
def test_a_leader_that_is_frozen_or_killed_is_replaced_and_follows_when_it_is_back(
    ensemble: Ensemble, until: Callable[..., None]
) -> None:
    first = ensemble.leader()
    first.stop()
    second = ensemble.leader()
    assert second is not first
    first.cont()
    until(lambda: first in ensemble.followers(), PATIENCE_SECONDS)
    second.kill()
    assert ensemble.leader() is not second
    second.start()
    until(lambda: len(ensemble.followers()) == 2, PATIENCE_SECONDS)


def test_a_member_that_is_cut_off_serves_nobody_until_it_is_healed(
    ensemble: Ensemble, until: Callable[..., None]
) -> None:
    member = ensemble.followers()[0]
    ensemble.cut(member)
    until(lambda: not member.serving(), PATIENCE_SECONDS)
    with Session(ZooKeeperSettings(hosts=ensemble.hosts)) as session:
        clusters.bootstrap(session)
    ensemble.heal(member)
    until(member.serving, PATIENCE_SECONDS)
    with Session(ZooKeeperSettings(hosts=member.hosts)) as session:
        assert session.get("/ocb/cluster") is not None
