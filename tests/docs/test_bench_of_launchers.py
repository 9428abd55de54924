"""``tools/bench launcher``: the stand-in, our launcher and Nodepool's serve the same requester, and a fault is no figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.model.records import Set
from nodepool_ocb.pool.states import new_request
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import benchmarks.figure
    import benchmarks.peers
    import benchmarks.pools.handing_out
    import benchmarks.pools.queueing

    return benchmarks


@pytest.fixture
def without_peers(benchmarks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """No peer can be installed."""
    monkeypatch.setattr("benchmarks.peers.environment", lambda *_: None)
    return benchmarks


@pytest.fixture
def requester(benchmarks: ModuleType, zookeeper: Server, chroot: str) -> Iterator[Any]:
    """In a chroot without a launcher."""
    assert benchmarks
    from benchmarks.pools.requester import Requester

    settings = ZooKeeperSettings(hosts=zookeeper.hosts + chroot, session_timeout_seconds=30.0)
    with Session(settings) as session:
        made = Requester(session)
        made.session, made.settings = session, settings
        yield made


@pytest.mark.long
def test_without_nodepool_a_hand_out_is_judged_by_the_stand_in_alone(without_peers: ModuleType) -> None:
    of_nodepool, of_the_floor = without_peers.pools.handing_out.measure(without_peers.figure.Plan(rounds=1, share=0.1))
    assert of_nodepool.holds is None
    assert "could not be installed" in of_nodepool.note
    assert of_the_floor.ratio == of_the_floor.ours / of_the_floor.other > 0.0
    assert "load" in of_the_floor.note


@pytest.mark.long
def test_without_nodepool_the_rate_of_the_queue_is_measured_and_not_judged(without_peers: ModuleType) -> None:
    (figure,) = without_peers.pools.queueing.measure(without_peers.figure.Plan(rounds=2, share=0.02))
    assert figure.what.startswith("20 requests over 4 static slots")
    assert figure.ours > 0.0
    assert figure.holds is None


def test_each_request_of_the_queue_is_served_and_its_slot_returns(
    benchmarks: ModuleType, requester: Any, tmp_path: Path
) -> None:
    clusters.bootstrap(requester.session)
    pools = benchmarks.pools
    with (
        pools.rack.Rack(1, 2, tmp_path / "farm") as rack,
        pools.sides.ours(requester.settings, tmp_path / "launcher", rack),
    ):
        assert len(pools.queueing.served(requester, rack, 6)) == 6
        requester.await_free(2, 60.0)
    assert requester.session.children(paths.REQUESTS) == []


def test_a_request_that_fails_is_no_figure(requester: Any) -> None:
    id, _ = requester.ask()
    record = new_request(0.0, node_types=("small",))
    failed = type(record)(state=RequestState.FAILED, state_time=0.0, reason="no pool is left")
    requester.session.commit([Set(paths.request(id), failed, 0)])
    with pytest.raises(RuntimeError, match=f"request {id} failed: no pool is left"):
        requester.next([id], 10.0)


def test_a_request_that_waits_too_long_is_no_figure(requester: Any) -> None:
    with pytest.raises(RuntimeError, match=r"no request was fulfilled within 0\.1 s"):
        requester.next([requester.ask()[0]], 0.1)


@pytest.mark.long
def test_nodepool_serves_the_same_requester(benchmarks: ModuleType, tmp_path: Path) -> None:
    peers = benchmarks.peers
    from benchmarks.pools import sides
    from benchmarks.pools.rack import Rack
    from benchmarks.pools.requester import Requester

    if peers.environment(".venv-bench-nodepool", peers.OF_NODEPOOL) is None:
        pytest.skip("Nodepool cannot be installed from PyPI")
    with sides.stage() as stage, Rack(1, 2, tmp_path / "farm") as rack, sides.world(stage) as (settings, session):
        requester = Requester(session)
        with sides.nodepool(stage, settings, rack.document):
            requester.await_free(2, 120.0)
            id, _ = requester.ask()
            (done,) = requester.next([id], 60.0)
            requester.use(done)
            requester.await_free(2, 60.0)
