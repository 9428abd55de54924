"""What a noderole that runs again and again leaves behind, and what may not be lost while that is tidied up."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.config import AnnealerSettings, ZooKeeperSettings
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.jigs import Order, Outcome, Succeeded
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, Fence, Node, Role, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.runs.tidying import RUNS_KEPT
from tests.journeys.fleet import Fleet

REFRESHES = 100


@pytest.fixture
def bare(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        fleet.add_node("n1.example.com", Node(virtual=True))
        yield fleet


def refreshed(fleet: Fleet, noderole: str, times: int) -> None:
    """Run it again so often, each time when it is ACTIVE."""
    for _ in range(times):
        fleet.until(lambda: _quiet(fleet, noderole), "it is ACTIVE")
        fleet.happens(noderole, Event.REFRESH)
    fleet.until(lambda: _quiet(fleet, noderole), "it is ACTIVE")


def _quiet(fleet: Fleet, noderole: str) -> bool:
    record = fleet.record(noderole)
    return record.state is State.ACTIVE and not record.refresh


@pytest.mark.parametrize("jig", ["noop", "test"])
def test_a_hundred_refreshes_leave_the_records_of_the_newest_ten_runs(bare: Fleet, jig: str) -> None:
    fleet = bare
    fleet.add_role("again", Role(barclamp="fleet", jig=jig))
    noderole = fleet.bind("again", fleet.nodes[0])
    fleet.annealer().begin()
    refreshed(fleet, noderole, REFRESHES)
    fleet.until(lambda: len(fleet.runs(noderole)) <= RUNS_KEPT, "the old ones go")
    runs = list(fleet.runs(noderole).values())
    assert [run.generation for run in runs] == list(range(REFRESHES + 2 - RUNS_KEPT, REFRESHES + 2))
    assert {bool(run.given) for run in runs} == {jig == "test"}, "where there is nothing to run nothing was given"


@pytest.mark.parametrize("times", [25, pytest.param(REFRESHES, marks=pytest.mark.long)])
def test_refreshes_of_a_script_leave_no_more_than_before_on_its_machine_and_on_the_annealers_host(
    fleet: Fleet, times: int
) -> None:
    fleet.add_role("again", Role(barclamp="fleet", jig="script", script="head -c 20000 /dev/zero | tr '\\0' x\n"))
    noderole = fleet.bind("again", fleet.nodes[0])
    annealer = fleet.annealer(log_keep=3, log_total_bytes=65536).begin()
    fleet.until_state(noderole, State.ACTIVE)
    runs = fleet.farm.state_dir(fleet.nodes[0]) / "runs"
    own = sorted(file.name.partition(".")[2] for file in runs.iterdir())
    for number in range(39):  # with its own run, as many as a machine keeps at most
        for name in own:
            (runs / f"old@{number}.{name}").touch()
    before = len(list(runs.iterdir()))
    refreshed(fleet, noderole, times)
    assert len(list(runs.iterdir())) <= before
    fleet.until(lambda: len(fleet.runs(noderole)) <= RUNS_KEPT, "the old records go")
    logs = Path(str(annealer.config.parent / "runs" / fleet.nodes[0]))
    fleet.until(lambda: len(list(logs.iterdir())) <= 3, "the old logs go")
    assert sum(file.stat().st_size for file in logs.iterdir()) <= 65536
    newest = list(fleet.runs(noderole).values())[-1]
    assert Path(str(newest.log).partition(":")[2]).read_text() == "x" * 20000


class Counting:
    """A jig that cannot attach. When all that run have come to their end, ZooKeeper is gone for a while."""

    name, instant, attaches = "counting", False, False

    def __init__(self, parties: int, proxy: Proxy) -> None:
        self.runs: Counter[str] = Counter()
        self._together = threading.Barrier(parties, action=partial(_blink, proxy), timeout=60.0)

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        self.runs[order.node] += 1
        if self.runs[order.node] == 1 and not stop.is_set():
            self._together.wait()
        return Succeeded(order.attributes)

    def cancel(self, order: Order) -> None: ...
    def close(self) -> None: ...


def _blink(proxy: Proxy) -> None:
    proxy.cut()
    threading.Timer(1.0, proxy.heal).start()


def test_work_that_has_ended_is_written_once_though_zookeeper_blinks_just_then(bare: Fleet) -> None:
    fleet = bare
    nodes = [f"n{number}.example.com" for number in range(2, 22)]
    for fqdn in nodes:
        fleet.add_node(fqdn, Node(virtual=True))
        for version in range(RUNS_KEPT + 2):  # it has seen many runs: there may be old ones to be tidied up
            fleet.session.commit([Set(paths.fence(fqdn), Fence(), version)])
    fleet.add_role("wipe", Role(barclamp="fleet", jig="counting", flags=("destructive",)))
    noderoles = [fleet.bind("wipe", fqdn) for fqdn in nodes]
    with Proxy(*fleet.server.ports) as proxy:
        jig = Counting(len(nodes), proxy)
        with annealing(fleet, proxy, jig, slots=len(nodes)):
            fleet.until(lambda: all(fleet.state(noderole) is State.ACTIVE for noderole in noderoles), "all are ACTIVE")
    assert set(jig.runs.values()) == {1}
    assert [len(fleet.runs(noderole)) for noderole in noderoles] == [1] * len(noderoles)


@contextmanager
def annealing(fleet: Fleet, proxy: Proxy, jig: Any, slots: int) -> Iterator[None]:
    """An annealer in this process that has only this jig, and sees ZooKeeper through the proxy."""
    settings = ZooKeeperSettings(hosts=proxy.hosts + fleet.chroot, session_timeout_seconds=10.0)
    session = Session(settings, on_lost=lambda: annealer.lost(), on_connected=lambda: annealer.turns.wake.set())
    daemon = Daemon(host="h", pid=1, version="1", started=0.0, jigs=(jig.name,), slots=slots)
    annealer = Annealer(session, AnnealerSettings(slots=slots, log_dir=None), {jig.name: jig}, None, "a0", daemon)
    over = threading.Event()

    def turn() -> None:
        while not over.is_set():
            annealer.turns.wake.clear()
            annealer.turns.wake.wait(min(annealer.turns.turn(), 0.2))

    session.start()
    turning = threading.Thread(target=turn)
    turning.start()
    try:
        yield
    finally:
        over.set()
        turning.join()
        annealer.close()
        session.close()
