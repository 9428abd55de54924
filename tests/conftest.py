"""Servers that tests share: one ZooKeeper a test process, a chroot of its own for each test."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.zookeeper.server import Server

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # no doctests there, and pytest takes several for one module

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[Server]:
    """A ZooKeeper for all tests of this process; do not stop it, others use it."""
    with Server(fsync=False) as server:
        yield server


@pytest.fixture
def chroot() -> str:
    """A path that no other test uses, to be put behind the server's host and port."""
    return f"/test-{next(_numbers)}"


@pytest.fixture
def zk_settings(zookeeper: Server, chroot: str) -> ZooKeeperSettings:
    """Plain text to the shared server, below this test's chroot."""
    return ZooKeeperSettings(hosts=zookeeper.hosts + chroot)


@pytest.fixture
def zk_session(zk_settings: ZooKeeperSettings) -> Iterator[Session]:
    """A started session below this test's chroot, with the bare tree of ``/ocb``."""
    with Session(zk_settings) as session:
        clusters.bootstrap(session)
        yield session


@pytest.fixture
def kazoo(zk_settings: ZooKeeperSettings, zk_session: Session) -> Iterator[KazooClient]:
    """Somebody else who writes what they like, as with zk-shell; the bare tree is there."""
    assert zk_session.connected
    client = KazooClient(zk_settings.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait for a condition: ``until(lambda: ...)``; fails after ``seconds``."""

    def wait(condition: Callable[[], object], seconds: float = 30.0) -> None:
        looked = time.monotonic()
        deadline = looked + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            looked = rest(looked)

    return wait
