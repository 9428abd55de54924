"""A launcher that a test plays."""

from __future__ import annotations

import pytest

from nodepool_ocb.store.client.session import Session
from tests.cli.pools.played_launcher import PlayedLauncher


@pytest.fixture
def launcher(zk_session: Session) -> PlayedLauncher:
    return PlayedLauncher(zk_session)
