"""What an annealer may cost, as the server counts it; how fast it is belongs to tools/bench."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Node, Role, Set, State
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
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


def test_a_thousand_noderoles_take_half_a_transaction_each(server: Server, tmp_path: Path) -> None:
    grid = Grid(nodes=20, lanes=5, depth=10)
    with Session(settings(server)) as session:
        grid.write(session)
        with DaemonProcess(settings(server), tmp_path) as annealer:
            before = transactions(server)
            grid.start(session)
            await_that(grid.finished(session), 60.0, "every noderole is ACTIVE", alive=annealer.running)
            took = transactions(server) - before - 1  # the commit was ours
        world = load_world(session)
    assert took / grid.size <= 0.5  # 0.15 on a calm computer: how many go together depends on the others
    assert {vertex.record.state for vertex in world.vertices()} == {State.ACTIVE}
    assert {vertex.record.generation for vertex in world.vertices()} == {1}, "each ran once"


@pytest.mark.long
def test_several_annealers_write_little_more_than_one(server: Server, tmp_path: Path) -> None:
    """A claim of the same node by two of them costs a refused transaction, and all work of its decision."""
    grid, wrote = Grid(nodes=100, lanes=5, depth=10), []
    for count in (1, 2, 4):
        with (
            Session(replace(settings(server), hosts=f"{server.hosts}/economy-{count}")) as session,
            ExitStack() as stack,
        ):
            grid.write(session)
            of = replace(settings(server), hosts=session.hosts)
            annealers = [stack.enter_context(DaemonProcess(of, tmp_path / f"{count}-{n}")) for n in range(count)]
            before = transactions(server)
            grid.start(session)
            await_that(grid.finished(session), 300.0, "every noderole is ACTIVE", alive=annealers[0].running)
            wrote.append(transactions(server) - before - 1)
            assert {vertex.record.generation for vertex in load_world(session).vertices()} == {1}, "each ran once"
    assert max(wrote[1:]) <= 1.2 * wrote[0], wrote


#: Nobody looks at the machines, which are not there; sweeps come thirty times as often as they usually do.
IDLE = {"annealer": {"sweep_seconds": 1.0, "probe_seconds": 600.0, "webhook": {"url": "http://127.0.0.1:1/"}}}


def set_aside(session: Session, fqdn: str) -> None:
    """A node is held, a deployment paused, both for an hour, and what is ACTIVE is checked next year."""
    world, now = load_world(session), session.now()
    stored, view = world.deployments["bench"], world.nodes[fqdn]
    assert view.record is not None
    aside = Maintenance(by="ann", reason="cables", since=now, until=now + 3600.0)
    checks = Checks(schedule="0 0 1 1 *", since=now)
    session.commit(
        [
            Set(paths.deployment("bench"), replace(stored.record, checks=checks), stored.version),
            Set(paths.node(fqdn), replace(view.record, hold=aside), view.version),
            Create(paths.deployment("desk"), Deployment(state=DeploymentState.COMMITTED, pause=aside)),
            Create(paths.deployment_roles("desk")),
        ]
    )


def test_an_idle_annealer_writes_nothing_and_asks_next_to_nothing(server: Server, tmp_path: Path) -> None:
    """Though its checks come by a schedule, a node is held, and a deployment is paused."""
    role = Role(barclamp="bench", jig="noop", check="true")
    machines = [(f"n{number}.bench.example.com", Node()) for number in range(200)]
    grid = Grid(nodes=200, lanes=5, depth=10, active=True, role=role, machines=machines)
    with Session(settings(server)) as session:
        grid.write(session)
        grid.start(session)
        set_aside(session, grid.fqdn(0))
    with Session(settings(server)) as session, DaemonProcess(settings(server), tmp_path, IDLE) as annealer:
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
        assert (requests(server) - asked) / seconds < 2.0
