"""The records of a server at a glimpse: never a wait for the turn thread, and no row of a refresh that failed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nodepool_ocb.api.daemon import ApiRecords
from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session


@pytest.fixture
def records(zk_settings: ZooKeeperSettings) -> Iterator[ApiRecords]:
    with Session(zk_settings) as session:
        clusters.bootstrap(session)
        yield ApiRecords(session, Settings(zookeeper=zk_settings), lambda: None)


def seen(records: ApiRecords) -> object:
    with records.glimpse() as world:
        return world


def test_a_glimpse_is_none_before_the_world_is_known_and_while_it_is_refreshed(records: ApiRecords) -> None:
    assert seen(records) is None
    records.load()
    with records.reading() as world:
        found: list[object] = []
        other = threading.Thread(target=lambda: found.append(seen(records)), daemon=True)
        other.start()
        other.join(10.0)
        assert found == [None]
    assert seen(records) is world


@pytest.mark.parametrize("way", ["load", "refresh", "sweep"])
def test_no_row_is_kept_after_a_refresh_that_failed(
    records: ApiRecords, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """It may have shown some of the changes."""

    def fail() -> None:
        raise Unavailable("gone")

    records.load()
    before = records.rows
    monkeypatch.setattr(records._cache, way, fail)
    with pytest.raises(Unavailable, match="gone"):
        getattr(records, way)()
    assert records.rows is not before
