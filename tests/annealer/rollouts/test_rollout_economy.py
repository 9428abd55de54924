"""What a rollout costs in transactions, beside the same noderoles committed at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model.records import Node, NodeRole, State
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.records import RolloutState
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import Strategy
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.grid import DEPLOYMENT, Grid
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper.counters import transactions
from nodepool_ocb.testing.zookeeper.server import Server

MOST = 2.0  # for each group


class Proposed(Grid, frozen=True, kw_only=True):
    """A grid of machines, of which nothing is committed."""

    def record(self, node: int, level: int, lane: int) -> NodeRole:
        return msgspec.structs.replace(super().record(node, level, lane), state=State.PROPOSED, generation=0)


def grid(nodes: int) -> Proposed:
    names = [f"n{number:05}.bench.example.com" for number in range(nodes)]
    return Proposed(nodes=nodes, lanes=1, depth=1, across=False, machines=[(name, Node()) for name in names])


def cost(folder: Path, nodes: int, commit: Callable[[Session], Callable[[], bool]]) -> int:
    """The transactions from the first commit to the last noderole that is ACTIVE, on a server of its own."""
    whole = grid(nodes)
    with Server(fsync=False) as server:
        settings = ZooKeeperSettings(hosts=f"{server.hosts}/economy", session_timeout_seconds=10.0)
        with Session(settings) as session:
            whole.write(session)
            whole.start(session)
            with DaemonProcess(settings, folder) as annealer:
                before = transactions(server)
                done, finished = commit(session), whole.finished(session)
                await_that(lambda: finished() and done(), 600.0, "all of it is ACTIVE", alive=annealer.running)
                took = transactions(server) - before
            generations = {vertex.record.generation for vertex in load_world(session).vertices()}
    assert generations == {1}
    return took


def at_once(session: Session) -> Callable[[], bool]:
    world = load_world(session)
    for changes in apply_to(world, world.vertices(), Event.COMMIT, time.time(), "ann"):
        session.commit(changes)
    return lambda: True


def in_groups(nodes: int, groups: int) -> Callable[[Session], Callable[[], bool]]:
    each = nodes // groups
    chosen = [[f"n{number:05}" for number in range(group * each, (group + 1) * each)] for group in range(groups)]
    document = [
        {"name": f"g{number:03}", "critical": True, "selectors": [{"node_names": names}]}
        for number, names in enumerate(chosen)
    ]

    def commit(session: Session) -> Callable[[], bool]:
        world = load_world(session)
        strategy = msgspec.convert({"groups": document}, Strategy)
        identity = rollouts.begin(
            session, DEPLOYMENT, begin(strategy, inventory(world, DEPLOYMENT), time.time(), "ann")
        )

        def over() -> bool:
            found = rollouts.read(session, DEPLOYMENT, identity)
            assert found is not None
            assert found[0].head.state in (RolloutState.RUNNING, RolloutState.SUCCESS)
            return found[0].over

        return over

    return commit


@pytest.mark.long
@pytest.mark.parametrize(("nodes", "groups"), [(500, 20), pytest.param(5000, 200, marks=pytest.mark.long)])
def test_a_rollout_takes_at_most_two_transactions_more_for_each_group(tmp_path: Path, nodes: int, groups: int) -> None:
    plain = cost(tmp_path / "plain", nodes, at_once)
    began = time.monotonic()
    live = cost(tmp_path / "live", nodes, in_groups(nodes, groups))
    print(f"{nodes} nodes: {plain} transactions at once, {live} in {groups} groups, {time.monotonic() - began:.1f} s")
    assert live - plain <= MOST * groups
