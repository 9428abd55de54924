"""A desk for the hooks of one annealer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nodepool_ocb.store.client.session import Session
from tests.annealer.hooks.hook_desk import Desk


@pytest.fixture
def desk(zk_session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(zk_session, monkeypatch)
    yield made
    made.hooking.close()
