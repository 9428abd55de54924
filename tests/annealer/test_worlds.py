"""Another world: a place in ZooKeeper without a cluster, or with another one. Real daemons."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Delete
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import ANNEALER, BUILDER, LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server, init

Until = Callable[..., None]


@pytest.mark.parametrize("launcher", [ANNEALER, BUILDER, LAUNCHER], ids=["annealer", "builder", "launcher"])
def test_a_daemon_waits_for_init_by_ending(
    zookeeper: Server, chroot: str, tmp_path: Path, until: Until, launcher: Collection[str]
) -> None:
    (tmp_path / "nodepool.yaml").write_text(yaml.safe_dump({"images-dir": str(tmp_path / "images")}))
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{chroot}/typo")
    daemon = DaemonProcess(settings, tmp_path, launcher=launcher)
    try:
        assert daemon.begin().wait(60.0) == 9
        last = daemon.said.splitlines()[-1]
        for part in (zookeeper.hosts, f"chroot {chroot}/typo", "nodepool-ocb init"):
            assert part in last
        with Session(ZooKeeperSettings(hosts=zookeeper.hosts)) as session:
            assert session.get(chroot) is None
        init(settings)
        daemon.begin()  # as systemd does
        until(daemon.ready, 60.0)
    finally:
        daemon.close()


@pytest.mark.parametrize("launcher", [ANNEALER, BUILDER, LAUNCHER], ids=["annealer", "builder", "launcher"])
def test_a_daemon_that_meets_another_cluster_in_its_place_ends_and_registers_nowhere(
    zookeeper: Server, chroot: str, tmp_path: Path, until: Until, launcher: Collection[str]
) -> None:
    (tmp_path / "nodepool.yaml").write_text(yaml.safe_dump({"images-dir": str(tmp_path / "images")}))
    settings = init(ZooKeeperSettings(hosts=zookeeper.hosts + chroot, session_timeout_seconds=4.0))
    with Session(ZooKeeperSettings(hosts=zookeeper.hosts)) as session, DaemonProcess(
        settings, tmp_path, launcher=launcher
    ) as daemon:  # fmt: skip
        kind = {ANNEALER: "annealer", BUILDER: "builder", LAUNCHER: "launcher"}[tuple(launcher)]
        daemon.freeze()
        until(lambda: not session.children(chroot + paths.daemons(kind)), 60.0)  # its session is over
        delete(session, chroot)
        init(settings)
        daemon.thaw()
        assert daemon.wait(60.0) == 9
        assert "it is another one" in daemon.said.splitlines()[-1]
        assert not session.children(chroot + paths.daemons(kind))


@pytest.mark.parametrize("launcher", [ANNEALER, BUILDER, LAUNCHER], ids=["annealer", "builder", "launcher"])
def test_a_daemon_ends_where_its_cluster_is_made_anew_while_its_session_lives(
    zookeeper: Server, chroot: str, tmp_path: Path, launcher: Collection[str]
) -> None:
    (tmp_path / "nodepool.yaml").write_text(yaml.safe_dump({"images-dir": str(tmp_path / "images")}))
    settings = init(ZooKeeperSettings(hosts=zookeeper.hosts + chroot, session_timeout_seconds=30.0))
    sections = {
        "annealer": {"sweep_seconds": 1.0},
        "builder": {"sweep_seconds": 1.0},
        "launcher": {"sweep_seconds": 1.0},
    }
    with Session(ZooKeeperSettings(hosts=zookeeper.hosts)) as session, DaemonProcess(
        settings, tmp_path, sections, launcher=launcher
    ) as daemon:  # fmt: skip
        daemon.freeze()
        delete(session, chroot + paths.ROOT)
        init(settings)
        daemon.thaw()
        assert daemon.wait(60.0) == 9
        assert "it is another one" in daemon.said.splitlines()[-1]


def delete(session: Session, path: str) -> None:
    """A znode and all below it."""
    for name in session.children(path) or ():
        delete(session, f"{path}/{name}")
    znode = session.get(path)
    if znode is not None:
        session.commit([Delete(path, znode.version)])


def test_an_annealer_that_is_sent_to_another_cluster_ends_and_one_without_logs_goes_on(
    zookeeper: Server, chroot: str, tmp_path: Path
) -> None:
    ours, other = (init(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{chroot}/{name}")) for name in ("ours", "other"))
    with DaemonProcess(ours, tmp_path):
        pass
    astray = DaemonProcess(other, tmp_path)
    try:
        assert astray.begin().wait(60.0) == 9
        assert str(tmp_path / "runs" / "cluster_id.txt") in astray.said.splitlines()[-1]
        with Session(other) as session:
            assert not session.children(paths.daemons("annealer"))
    finally:
        astray.close()
    with DaemonProcess(other, tmp_path / "b", {"annealer": {"log_dir": "/proc/no/such"}}) as daemon:
        assert "no logs can be kept there" in daemon.said
