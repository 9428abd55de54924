"""A deployment with one execution that no annealer drives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, RolloutPointer
from nodepool_ocb.store.client.session import Session
from tests.annealer.driving.staged_work import ID, POINTER


@pytest.fixture
def session(zk_settings: ZooKeeperSettings, zk_session: Session) -> Iterator[Session]:
    zk_session.ensure(paths.ROLLOUTS)
    zk_session.commit([Create(POINTER, RolloutPointer(newest=ID, over=False)), Create(f"{POINTER}/{ID}")])
    with Session(zk_settings) as session:
        yield session
