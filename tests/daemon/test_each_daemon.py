"""What every daemon does, whichever it is: real annealers, builders and launchers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, Delete
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import daemons
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import ANNEALER, BUILDER, LAUNCHER, DaemonProcess

Until = Callable[..., None]


class Sort(msgspec.Struct, frozen=True):
    """A kind of daemon, the key that says how much it does at once, and one that counts from its next start on."""

    kind: ClientKind
    launcher: Collection[str]
    size: str
    fixed: str


ALL: Final = (
    Sort(ClientKind.ANNEALER, ANNEALER, "slots", "ssh.state_dir"),
    Sort(ClientKind.BUILDER, BUILDER, "build_workers", "images-dir"),
    Sort(ClientKind.LAUNCHER, LAUNCHER, "launch_workers", "zookeeper-*"),
)


@pytest.fixture(params=ALL, ids=lambda sort: sort.kind)
def sort(request: pytest.FixtureRequest) -> Sort:
    found: Sort = request.param
    return found


@pytest.fixture
def daemon(zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, sort: Sort) -> Iterator[DaemonProcess]:
    """One that is ready, and sweeps often."""
    assert zk_session.trusted, "there is a cluster"
    images_dir(tmp_path, "images")
    with DaemonProcess(
        zk_settings, tmp_path, {str(sort.kind): {"sweep_seconds": 0.5}}, launcher=sort.launcher
    ) as running:
        yield running


def images_dir(folder: Path, name: str, **keys: object) -> None:
    """Where the builder keeps its images, from its next start on."""
    (folder / "nodepool.yaml").write_text(yaml.safe_dump({"images-dir": str(folder / name), **keys}))


@pytest.fixture
def registered(zk_session: Session, daemon: DaemonProcess, sort: Sort) -> Callable[[], Daemon | None]:
    """What it says of itself."""
    (identity,) = daemons.read(zk_session, sort.kind)
    assert daemon.running()
    return lambda: daemons.read(zk_session, sort.kind).get(identity)


def test_what_counts_from_the_next_start_on_is_named_and_the_rest_is_taken_over(
    daemon: DaemonProcess, sort: Sort, registered: Callable[[], Daemon], until: Until, tmp_path: Path
) -> None:
    servers = {"zookeeper-servers": [{"host": "127.0.0.1"}]} if sort.kind is ClientKind.LAUNCHER else {}
    images_dir(tmp_path, "elsewhere", **servers)
    daemon.configure(
        zookeeper={"hosts": "127.0.0.1:1/elsewhere"},
        ssh={"state_dir": "~/elsewhere"},
        **{str(sort.kind): {sort.size: 3}},
    )
    daemon.reload()
    until(lambda: f"needs a restart: zookeeper.hosts, {sort.fixed}" in daemon.said, 60.0)
    until(lambda: registered().slots == 3, 60.0)
    assert "reloaded" not in daemon.said


def test_a_broken_configuration_changes_nothing(
    daemon: DaemonProcess, sort: Sort, registered: Callable[[], Daemon], until: Until
) -> None:
    before = registered()
    daemon.configure(log={"format": "json"}, **{str(sort.kind): {sort.size: "many"}})
    daemon.reload()
    until(lambda: "the new configuration is refused, and the former one stays in use" in daemon.said, 60.0)
    assert daemon.ready()
    assert registered() == before
    assert '"message"' not in daemon.said


def test_a_registration_that_somebody_deleted_is_made_again_once(
    daemon: DaemonProcess, sort: Sort, registered: Callable[[], Daemon | None], until: Until, zk_session: Session
) -> None:
    before = registered()
    (identity,) = daemons.read(zk_session, sort.kind)
    path = paths.daemon(sort.kind, identity)
    zk_session.commit([Delete(path, znode.version) for znode in [zk_session.get(path)] if znode])
    until(registered, 60.0)
    made, swept = zk_session.get(path), daemon.metric("nodepool_ocb_sweeps_total")
    assert registered() == before
    until(lambda: daemon.metric("nodepool_ocb_sweeps_total") >= swept + 2, 60.0)
    assert zk_session.get(path) == made
