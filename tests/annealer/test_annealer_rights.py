"""An annealer with a user of its own, over TLS: it does all of its work, and no more than that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Denied
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Delete, Deployment, NodeRole, Role, Set, State
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import acls, journal
from nodepool_ocb.store.client.access import Acls
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.tasks.runs.records import TaskRunState
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.annealer.tasks.task_staging import begin, build, finished
from tests.annealer.webhook.posters import Receiver, write
from tests.journeys.fleet import DEPLOYMENT, Fleet


class GuardedFleet(Fleet):
    """A fleet whose session is people's, and whose annealers come as annealers."""

    def __init__(self, world: Guarded, chroot: str, folder: Path) -> None:
        self.world = world
        super().__init__(world.server, chroot, folder)

    def settings(self, session_seconds: float) -> ZooKeeperSettings:
        return replace(self.world.settings_of(ClientKind.PEOPLE, self.chroot), session_timeout_seconds=session_seconds)

    def settings_of_annealers(self, session_seconds: float) -> ZooKeeperSettings:
        mine = self.world.settings_of(ClientKind.ANNEALER)
        return replace(mine, hosts=self.chroot, session_timeout_seconds=session_seconds)

    def differing(self) -> list[str]:
        """The znodes that have not the rights of their place."""
        return [each.path for each in acls.Walk(self.session, Acls(self.settings(1.0))).differing()]


@pytest.fixture
def fleet(chroot: str, tmp_path: Path) -> Iterator[GuardedFleet]:
    with Guarded() as world, GuardedFleet(world, chroot, tmp_path) as made:
        yield made


def test_an_annealer_with_a_user_of_its_own_makes_a_node_ready_and_may_write_no_role(fleet: GuardedFleet) -> None:
    fleet.add_role("first", fleet.work(0.1))
    fleet.add_role(
        "second", fleet.work(0.1, then='printf "%s" "{\\"a\\": 1}" > "$NODEPOOL_OCB_OUT" 2>/dev/null || true')
    )
    node = fleet.nodes[0]
    above = fleet.bind("first", node)
    fleet.bind("second", node, [above])
    fleet.session.commit([Create(paths.user("first", node), {"a": 1})])
    with Receiver() as taker:
        annealer = fleet.annealer(session_seconds=20.0, webhook={"url": taker.url})
        annealer.start(120.0)
        fleet.until_all_active(120.0)
        write(fleet.session)
        fleet.until(lambda: taker.numbers == [0], "the webhook's cursor may be written")
        fleet.until(lambda: journal.cursor(fleet.session)[1] == 2, "it is")
    assert [run.outcome for run in fleet.runs(above).values()] == ["succeeded"]
    build(fleet.session, {"t1": ["a"]})
    tasks = begin(fleet.session, "- {id: first, type: shell, role: [a], parameters: {cmd: x}}", {"t1": ["a"]})
    assert finished(fleet.session, tasks).state is TaskRunState.SUCCESSFUL
    assert fleet.differing() == []
    refuses(fleet, node)
    annealer.close(60.0)
    assert "does not let this user" not in annealer.said, annealer.said
    assert not fleet.faults()


def refuses(fleet: GuardedFleet, node: str) -> None:
    """What only people and builders write is refused to the annealers' user."""
    role = Role(barclamp="evil", jig="script", script="id")
    with Session(fleet.world.settings_of(ClientKind.ANNEALER, fleet.chroot)) as mine:
        wanted: list[Change] = [
            Create(paths.role("evil"), role),
            Set(paths.role("first"), role, 0),
            Delete(paths.role("first"), 0),
            Set(paths.user("first", node), {"a": 2}, 0),
            Create(paths.deployment("evil"), Deployment()),
            Set(paths.deployment(DEPLOYMENT), Deployment(), 0),
            Create(paths.noderole("evil", node), NodeRole(state=State.TODO, since=1.0, deployment=DEPLOYMENT)),
            Create(paths.node("evil.example.com")),
            Delete(paths.CLUSTER, 0),
            Create("/ocb/journal/evil"),
            Create("/nodepool/image/evil"),
            Create("/nodepool/evil"),
            Set(paths.IMAGES, None, 0),
        ]
        for change in wanted:
            with pytest.raises(Denied, match=change.path):
                mine.commit([change])
