"""A builder that is played, and its pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.store import logkeys
from nodepool_ocb.store.client.session import Session
from tests.cli.images.page_server import PageServer
from tests.cli.images.played_builder import Builder


@pytest.fixture
def builder(zk_session: Session) -> Builder:
    return Builder(zk_session)


@pytest.fixture
def pages(zk_session: Session, tmp_path: Path) -> Iterator[PageServer]:
    (tmp_path / "logs").mkdir()
    server = PageServer(tmp_path / "logs", logkeys.Readers(zk_session)())
    yield server
    server.kill()
