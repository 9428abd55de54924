"""Ten thousand requests, and many launches beside working annealers: memory and writes stay bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, RequestState
from nodepool_ocb.model.records import Change, Create, Delete, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool.cache import PoolCache
from tests.journeys.answers.staged_annealers import StagedAnnealer
from tests.store.pool.test_enrolment import Cluster, names

REQUESTS: Final = 10_000
AT_ONCE: Final = 250


def _write(session: Session, change: Callable[[int], Change]) -> None:
    for first in range(0, REQUESTS, AT_ONCE):
        session.commit([change(number) for number in range(first, first + AT_ONCE)])


def _path(number: int) -> str:
    return paths.request(f"{100 + number % 3}-{number:010}")


def test_ten_thousand_requests_are_one_read_and_their_events_take_no_more_room(
    zk_session: Session, other: Session
) -> None:
    wakes = []
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: wakes.append(1))
    cache.load()
    record = NodeRequest(state=RequestState.REQUESTED, state_time=1.0, node_types=("a",), requestor="zuul")
    _write(other, lambda number: Create(_path(number), record))
    for version in range(2):  # a turn that is slow, while requesters go on
        _write(other, lambda number, version=version: Set(_path(number), record, version))  # type: ignore[misc]
        zk_session.sync()
        assert len(cache._events) == REQUESTS
    assert len(wakes) == 3 * REQUESTS
    assert cache.refresh()
    view = cache.view()
    assert len(view.requests) == REQUESTS
    assert {each.version for each in view.requests.values()} == {2}
    ordered = sorted(view.requests.values(), key=lambda each: each.order)
    assert [each.id for each in ordered] == sorted(view.requests)
    assert not cache.refresh()
    _write(other, lambda number: Delete(_path(number), 2))
    zk_session.sync()
    cache.refresh()
    assert not cache.view().requests
    left = (cache.requests._mzxids, cache.requests._contenders, cache._locks, cache._events)
    assert not any(left)


def test_a_burst_of_launches_beside_annealers_writes_the_structure_a_few_times(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, until: Callable[..., None]
) -> None:
    cluster = Cluster(zk_session)
    count = 24
    first, burst = names(count)[:4], names(count)[4:]
    with StagedAnnealer(zk_settings, "a1", tmp_path), StagedAnnealer(zk_settings, "a2", tmp_path):
        assert cluster.enrol(*first).created == tuple(first)  # these have runs while the others come
        before, wanted, calls = cluster.structure, burst, 0
        while wanted:
            wanted, calls = list(cluster.enrol(*wanted).left), calls + 1
        assert cluster.structure - before <= calls <= 5
        until(lambda: _active(cluster, names(count)), 60)
        before, going, calls = cluster.structure, names(count), 0
        waited = threading.Event()
        while going:
            going, calls = list(cluster.dismiss(*going).waiting), calls + 1
            waited.wait(0.05 if going else 0)
        assert cluster.structure - before < count
        assert not cluster.world.nodes


@pytest.mark.long
def test_a_hundred_launches_a_minute_beside_annealers_write_the_structure_once_each_at_most(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, until: Callable[..., None]
) -> None:
    cluster, count, apart_seconds = Cluster(zk_session), 100, 0.6
    clock = threading.Event()
    with StagedAnnealer(zk_settings, "a1", tmp_path), StagedAnnealer(zk_settings, "a2", tmp_path):
        before, began, wanted = cluster.structure, time.monotonic(), []
        for number, fqdn in enumerate(names(count)):
            clock.wait(max(0.0, began + number * apart_seconds - time.monotonic()))  # the rate of the arrivals
            wanted = [*cluster.enrol(*wanted, fqdn).left]
        deadline = time.monotonic() + 60.0
        while wanted:
            assert time.monotonic() < deadline, f"not created: {wanted}"
            wanted = [*cluster.enrol(*wanted).left]
        writes, seconds = cluster.structure - before, time.monotonic() - began
        print(f"{count} launches in {seconds:.0f} s: {writes} writes of the structure")
        assert writes <= count
        until(lambda: _active(cluster, names(count)), 120)


def _active(cluster: Cluster, fqdns: list[str]) -> bool:
    shown = cluster.world.nodes
    return all(
        fqdn in shown and all(vertex.record.state is State.ACTIVE for vertex in shown[fqdn].noderoles.values())
        for fqdn in fqdns
    )
