"""A launcher with a user of its own, on a server that admits known users alone, serves a requester with its own user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.model.records import Create, Role
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import acls, clusters
from nodepool_ocb.store.client.access import Acls
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.testing.processes import LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.launcher.launcher_fleet import LauncherFleet


class GuardedFleet(LauncherFleet):
    """One launcher; ``session`` is the requester's, ``people`` that of people."""

    def __init__(self, world: Guarded, folder: Path) -> None:
        super().__init__(world.server, "/c", folder)
        self.session = Session(world.settings_of(ClientKind.REQUESTER, "/c"))
        self.locks = Locks(self.session)
        self.people = Session(world.settings_of(ClientKind.PEOPLE, "/c"))
        sections = {"launcher": {"sweep_seconds": 5.0, "drain_seconds": 2.0}, "admin_domain": "example.com"}
        self.daemon = DaemonProcess(world.settings_of(ClientKind.LAUNCHER, "/c"), folder / "l0", sections, LAUNCHER)
        labels = [{"name": "small"}, {"name": "ready", "anneal": True, "roles": ["ntp"]}]
        document = {"labels": labels, "providers": [self.cloud("east", "small", "ready")]}
        (folder / "l0" / "nodepool.yaml").write_text(yaml.safe_dump(document))

    def __enter__(self) -> GuardedFleet:
        self.people.start()
        clusters.bootstrap(self.people)
        self.people.commit([Create(paths.role("ntp"), Role(barclamp="b", jig="noop"))])
        self.session.start()
        self.daemon.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.close(10.0)
        print(self.daemon.said)  # pytest shows it where the test fails
        self.session.close()
        self.people.close()


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    with Guarded() as made:
        yield made


def test_a_launcher_and_a_requester_with_users_of_their_own_serve_and_use_nodes(world: Guarded, tmp_path: Path) -> None:
    with GuardedFleet(world, tmp_path) as fleet:
        request = fleet.request("small")
        (node,) = fleet.fulfilled(request)
        assert node.state is PoolNodeState.READY
        locks = fleet.take(request)
        fleet.give_back(request, locks)
        fleet.until(lambda: not fleet.nodes(), "the used node is deleted")
        fleet.until(lambda: not fleet.machines("east"), "its machine is deleted")
        fleet.request("ready")
        fleet.until(lambda: fleet.people.children(paths.NODES), "the launched node is a node of the cluster")
        (fqdn,) = fleet.people.children(paths.NODES) or ()
        fleet.until(lambda: fleet.people.get(paths.noderole("ntp", fqdn)), "its role is bound")
        assert "does not let this user" not in fleet.daemon.said
        settings = world.settings_of(ClientKind.PEOPLE, "/c")
        walk = acls.Walk(fleet.people, Acls(settings))
        assert [each.path for each in walk.differing()] == []
