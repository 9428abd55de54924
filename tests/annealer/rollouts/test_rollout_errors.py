"""A rollout of hundreds of nodes, each with many noderoles in ERROR from long ago, driven by a real annealer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Fence, Node, NodeRole, Role, State
from nodepool_ocb.rollout import commands
from nodepool_ocb.rollout.records import RolloutState
from nodepool_ocb.store.client.transaction import RECORD_BYTES
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.staging import LiveRollout, document, roles

NODES, ERRORS = 400, 22
WHY = "the package could not be configured, for what it needs is not there: " * 4
PHASES = ({"name": "deploy", "timeout_seconds": 3600.0},)


@pytest.fixture
def broken(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes whose noderoles are all in ERROR; their jig does nothing, well."""
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        names = [f"role-{number:02}" for number in range(ERRORS)]
        roles(fleet, **{name: Role(barclamp="fleet", jig="noop") for name in names})
        lost = NodeRole.of(state=State.ERROR, since=1.0, deployment=DEPLOYMENT, generation=12, reason=WHY)
        made: list[Change] = []
        for number in range(NODES):
            fqdn = f"compute-{number:04}.rack12.example.com"
            made += [
                Create(paths.node(fqdn), Node(deployment=DEPLOYMENT, alive=True, rack="rack12")),
                Create(paths.fence(fqdn), Fence()),
                Create(paths.noderoles(fqdn)),
            ]
            for name in names:
                made += [Create(paths.noderole(name, fqdn), lost), Create(paths.runs(name, fqdn))]
        for start in range(0, len(made), 400):
            fleet.session.commit(made[start : start + 400])
        yield fleet


@pytest.mark.parametrize("sent_again", [False, pytest.param(True, marks=pytest.mark.long)])
def test_hundreds_of_nodes_with_many_old_errors_each_come_to_their_end(broken: Fleet, sent_again: bool) -> None:
    broken.annealer(session_seconds=10.0).begin()
    group = {"name": "all", "critical": True, "success_criteria": {"percent_successful_nodes": 100}}
    live = LiveRollout(broken, document([group], PHASES, max_in_flight={"rack": NODES}))
    rollout = live.until_over(120.0)
    assert {str(progress.state) for progress in rollout.nodes.values()} == {"failure"}
    assert all(len(progress.reason or "") > 300 for progress in rollout.nodes.values())
    assert rollout.head.state is RolloutState.FAILED
    assert len(rollout.sizes) > 1
    place = paths.rollout(DEPLOYMENT, live.id)
    parts = broken.session.get_many(
        [f"{place}/nodes/{name}" for name in broken.session.children(f"{place}/nodes") or ()]
    )
    assert sum(len(part.data) for part in parts if part) > RECORD_BYTES, "no single znode would have held it"
    if sent_again:
        live.ask(commands.retry, broken.session.now())
        assert live.until_over(300.0).head.state is RolloutState.SUCCESS
        assert {vertex.record.generation for vertex in load_world(broken.session).vertices()} == {13}
