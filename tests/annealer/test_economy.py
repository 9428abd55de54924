"""What an annealer may cost, as the server counts it; how fast it is belongs to tools/bench."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import State
from nodepool_ocb.store import journal, tree
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper.counters import requests, transactions
from nodepool_ocb.testing.zookeeper.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """One that nobody else writes to, and that forgets no session of theirs meanwhile."""
    with Server(fsync=False) as alone:
        yield alone


def settings(server: Server) -> ZooKeeperSettings:
    return ZooKeeperSettings(hosts=f"{server.hosts}/economy", session_timeout_seconds=10.0)


def test_a_thousand_noderoles_take_at_most_2_2_transactions_each(server: Server, tmp_path: Path) -> None:
    grid = Grid(nodes=20, lanes=5, depth=10)
    with Session(settings(server)) as session:
        grid.write(session)
        with DaemonProcess(settings(server), tmp_path) as annealer:
            before = transactions(server)
            grid.start(session)
            await_that(grid.finished(session), 60.0, "every noderole is ACTIVE", alive=annealer.running)
            took = transactions(server) - before - 1  # the commit was ours
        world = tree.load(session)
    assert took / grid.size <= 2.2
    assert {vertex.record.state for vertex in world.vertices()} == {State.ACTIVE}
    assert {vertex.record.generation for vertex in world.vertices()} == {1}, "each ran once"


def test_an_idle_annealer_writes_nothing_and_asks_next_to_nothing(server: Server, tmp_path: Path) -> None:
    grid = Grid(nodes=200, lanes=5, depth=10, active=True)
    with Session(settings(server)) as session:
        grid.write(session)
        grid.start(session)
    webhook = {"url": "http://127.0.0.1:1/"}
    with (
        Session(settings(server)) as session,
        DaemonProcess(settings(server), tmp_path, {"annealer": {"sweep_seconds": 1.0, "webhook": webhook}}) as annealer,
    ):
        await_that(lambda: journal.cursor(session)[0] is not None, 30.0, "the webhook has begun")
        swept = annealer.metric("nodepool_ocb_sweeps_total")

        def sweeps(count: int) -> None:
            wanted = swept + count
            await_that(
                lambda: annealer.metric("nodepool_ocb_sweeps_total") >= wanted, 30.0, "sweeps", alive=annealer.running
            )

        sweeps(2)  # the first sees that the webhook has begun, and has ended
        wrote, asked, since = transactions(server), requests(server), time.monotonic()
        sweeps(5)
        seconds = time.monotonic() - since
        assert transactions(server) == wrote
        assert (requests(server) - asked) / seconds < 2.0  # though it sweeps thirty times as often as it usually does
