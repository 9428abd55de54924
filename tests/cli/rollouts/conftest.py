"""The seed's groups of nodes in deployment lab, its strategy in a file, and a rollout of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.model.records import Json
from nodepool_ocb.store.client.session import Session
from tests.cli.rollouts.driving import STRATEGY, build


@pytest.fixture
def site(zk_session: Session) -> Session:
    build(zk_session)
    return zk_session


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "site.yaml").write_text(STRATEGY)
    return str(tmp_path / "site.yaml")


@pytest.fixture
def started(site: Session, ask: Callable[..., Json], file: str) -> Session:
    ask("rollout", "start", file)
    return site
