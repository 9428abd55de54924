"""An annealer that loses the answer to its own claim goes on with the run: it alone knows that nothing was begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Fence, Node, NodeRole, Role, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import ANNEALER, CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server

NODE = "n1.example.com"


def test_a_destructive_run_whose_claim_lost_its_answer_is_begun(
    zookeeper: Server, chroot: str, zk_session: Session, tmp_path: Path, until: Callable[..., None]
) -> None:
    _two_noderoles(zk_session)

    def state(role: str) -> tuple[State, str | None]:
        record = next(v.record for v in load_world(zk_session).vertices() if v.role == role)
        return record.state, record.reason

    settings = ZooKeeperSettings(hosts=chroot, session_timeout_seconds=20.0)
    sections = {"annealer": {"probe_seconds": 600.0, "sweep_seconds": 5.0}}
    daemon = CutDaemon(zookeeper.ports, settings, tmp_path, sections, ANNEALER)
    try:
        swallowed = daemon.proxy.drop_answers_to(b'"outcome":')  # of the run that ends
        daemon.begin()
        assert swallowed.wait(30)
        assert state("wipe")[0] is State.TRANSITION  # the same transaction claimed it
        daemon.proxy.heal()
        until(lambda: state("wipe")[0] in (State.ACTIVE, State.ERROR), 30)
        assert state("wipe") == (State.ACTIVE, None)
        assert len(zk_session.children(paths.runs("wipe", NODE)) or ()) == 1
    finally:
        daemon.discard()


def _two_noderoles(session: Session) -> None:
    """A destructive one, whose jig cannot find its run again, behind another."""
    session.commit(
        [
            Create(paths.role("first"), Role(barclamp="t", jig="test", parameters={"delay": 0.2})),
            Create(paths.role("wipe"), Role(barclamp="t", jig="test", flags=("destructive",))),
            Create(paths.node(NODE), Node(alive=True, virtual=True)),
            Create(paths.fence(NODE), Fence()),
            Create(paths.noderoles(NODE)),
            Create(paths.noderole("first", NODE), NodeRole(state=State.TODO, since=1.0, generation=1)),
            Create(paths.runs("first", NODE)),
            Create(paths.noderole("wipe", NODE), NodeRole(state=State.BLOCKED, since=1.0, parents=(f"first@{NODE}",))),
            Create(paths.runs("wipe", NODE)),
        ]
    )
