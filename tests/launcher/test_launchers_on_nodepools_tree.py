"""A builder and a launcher of ours on the tree of Nodepool 11: an image that one builds is launched by the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import clusters, nodepool11
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.nova import Nova
from nodepool_ocb.testing.processes import BUILDER, LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.guarded import SUPERUSER, USERS, Guarded
from tests.launcher.launcher_fleet import LauncherFleet

CHROOT = "/site"
SCRIPT = 'echo image >"$NODEPOOL_OCB_OUTPUT_QCOW2"'
SECONDS = 90.0


class OwnFleet(LauncherFleet):
    """A requester's session with a user of its own; daemons are made elsewhere."""

    def __init__(self, settings: ZooKeeperSettings, guarded: Guarded, folder: Path) -> None:
        super().__init__(guarded.server, CHROOT, folder)
        self.session = Session(settings, tree=nodepool11.tree("nodepool"))
        self.locks = type(self.locks)(self.session)


class NodepoolSite:
    """A builder and a launcher with one file, one cloud and one tree; each has a user of its own."""

    def __init__(self, guarded: Guarded, cloud: Nova, folder: Path) -> None:
        self.cloud = cloud
        cloud.write_clouds(folder / "clouds.yaml")
        file = folder / "nodepool.yaml"
        file.write_text(yaml.safe_dump(_file(folder)))
        quick = {"sweep_seconds": 5.0, "nodepool": str(file)}
        common = {"layout": "nodepool", "admin_domain": "example.com"}
        of_builder = {**quick, "retry_seconds": 0.2, "drain_seconds": 1.0, "free_bytes": 0}
        settings = guarded.settings_of(ClientKind.BUILDER, CHROOT)
        self.builder = DaemonProcess(settings, folder / "b0", {"builder": of_builder, **common}, BUILDER)
        settings = guarded.settings_of(ClientKind.LAUNCHER, CHROOT)
        self.launcher = DaemonProcess(settings, folder / "l0", {"launcher": quick, **common}, LAUNCHER)
        for each in (self.builder, self.launcher):
            each.environment |= {"OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml")}

    def close(self) -> None:
        for each in (self.builder, self.launcher):
            each.close()
            print(each.said)


def _file(folder: Path) -> dict[str, Any]:
    command = {"backend": "command", "options": {"argv": ["/bin/sh", "-c", SCRIPT]}, "formats": ["qcow2"]}
    label = {"name": "small", "diskimage": "jammy", "flavor-name": "small", "host-key-checking": False}
    west = {"name": "west", "driver": "openstack", "cloud": "test", "region-name": "RegionOne", "rate": 0.01}
    pool = {"name": "main", "auto-floating-ip": False, "labels": [label]}
    return {
        "images-dir": str(folder / "images"),
        "labels": [{"name": "small"}],
        "diskimages": [{"name": "jammy", "username": "ubuntu", **command}],
        "providers": [{**west, "diskimages": [{"name": "jammy"}], "pools": [pool]}],
    }


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with Guarded(demands_user=False) as made:
        yield made


def stranger(guarded: Guarded) -> KazooClient:
    """A client without a user, as Nodepool's and Zuul's are."""
    tls = guarded.settings(SUPERUSER, CHROOT).tls
    assert tls is not None
    hosts = guarded.server.hosts + CHROOT
    client = KazooClient(hosts, use_ssl=True, certfile=tls.cert, keyfile=tls.key, ca=tls.ca)
    client.start(timeout=60)
    return client


def test_an_image_that_our_builder_built_is_launched_used_and_deleted_on_nodepools_tree(
    guarded: Guarded, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        cloud = stack.enter_context(Nova())
        people = replace(guarded.settings(USERS.people, CHROOT), users=USERS)
        fleet = stack.enter_context(OwnFleet(people, guarded, tmp_path))
        clusters.bootstrap(fleet.session)
        site = NodepoolSite(guarded, cloud, tmp_path)
        stack.callback(site.close)
        site.builder.start()
        site.launcher.start()
        request = fleet.request("small")
        (node,) = fleet.fulfilled(request, SECONDS)

        other = stranger(guarded)
        stack.callback(other.close)
        stack.callback(other.stop)
        assert node.image_id is not None
        upload = nodepool11.tree("nodepool").stored(node.image_id)
        assert upload.startswith("/nodepool/images/jammy/builds/")
        written = json.loads(other.get(upload)[0])
        assert written["state"] == "ready"
        assert cloud.servers[str(node.external_id)]["image"]["id"] == written["external_id"]
        assert node.username == "ubuntu"
        assert not other.exists(paths.IMAGES)

        for path in (upload, f"{paths.REQUESTS}/{request}", *(paths.pool_node(id) for id in fleet.nodes())):
            assert other.get_acls(path)[0] == OPEN_ACL_UNSAFE, f"{path} is open to Nodepool's clients"
        with pytest.raises(NoAuthError):
            other.create("/ocb/intruder")
        with pytest.raises(NoAuthError):
            other.get_children("/ocb")

        locks = fleet.take(request)
        fleet.give_back(request, locks)
        fleet.until(lambda: not fleet.nodes(), "the node is deleted", SECONDS)
        assert cloud.servers == {}
        assert fleet.nodes(PoolNodeState.READY) == {}
