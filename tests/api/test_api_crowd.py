"""Many event clients over real sockets, some of them stuck: the others see each change, and the memory is bounded."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Node, Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.crowd import EventCrowd, latency
from tests.api.served import ServedApi

Until = Callable[..., None]

LARGE: Final = "x" * (64 * 1024)
LARGE_NODES: Final = 150  # more bytes than the buffers of a connection hold
MORE_BYTES: Final = 96 << 20


def written(session: Session, name: str, changes: int) -> Iterator[tuple[int, float]]:
    """Write a node so often; gives the zxid and the time of each write. A stream leaves out versions that newer ones replaced."""
    session.commit([Create(paths.node(name), Node())])
    for number in range(changes):
        began = time.monotonic()
        (stat,) = session.commit([Set(paths.node(name), Node(rack=f"r{number}"), number)])
        assert stat is not None
        yield stat.mzxid, began


def crowded(
    served: ServedApi, session: Session, clients: int, stuck: int, changes: int, until: Until | None = None
) -> float:
    """The median of the seconds until a change is seen. ``until``: wait until the stuck clients are cut."""
    port, readers = int(served.address.rpartition(":")[2]), clients - stuck
    before = served.daemon.resident_bytes
    with EventCrowd(
        port,
        served.token,
        reading=readers,
        stuck=stuck,
        path="/v1/events?kind=node&node=small.example.com",
        stuck_path="/v1/events?kind=node",
    ) as crowd:
        for number in range(LARGE_NODES):
            session.commit([Create(paths.node(f"large{number}.example.com"), Node(rack=LARGE))])
        took = [
            seconds
            for zxid, began in written(session, "small.example.com", changes)
            for seconds in latency(crowd, zxid, began, readers, 60.0)
        ]
        assert crowd.ended == 0
        assert served.daemon.resident_bytes <= before + MORE_BYTES
        if until is not None:
            until(lambda: served.daemon.metric("nodepool_ocb_api_connections") <= readers, 90.0)
    return statistics.median(took)


def test_stuck_clients_keep_no_event_from_the_others(
    zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path
) -> None:
    served = ServedApi(zk_settings, tmp_path)
    try:
        assert crowded(served, zk_session, clients=20, stuck=5, changes=5) < 5.0
    finally:
        served.close()


@pytest.mark.long
def test_two_hundred_clients_of_which_five_are_stuck_see_a_change_within_a_second(
    zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path, until: Until
) -> None:
    served = ServedApi(zk_settings, tmp_path)
    try:
        assert crowded(served, zk_session, clients=200, stuck=5, changes=50, until=until) < 1.0
    finally:
        served.close()
