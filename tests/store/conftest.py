"""A server that tests of this folder may kill and freeze, and a proxy before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.store.interrupted_session import InterruptedSession

Connect = Callable[..., Session]


@pytest.fixture(scope="module")
def breakable() -> Iterator[Server]:
    """A server that is killed and frozen; its ticks are short, so that sessions may be. Leave it running."""
    with Server(fsync=False, tick_ms=100) as server:
        yield server


@pytest.fixture
def proxy(breakable: Server) -> Iterator[Proxy]:
    """What stands between a test's sessions and the breakable server."""
    with Proxy(breakable.port) as between:
        yield between


@pytest.fixture
def other(zk_settings: ZooKeeperSettings) -> Iterator[Session]:
    """Another process's session on the same tree."""
    with Session(zk_settings) as session:
        yield session


@pytest.fixture
def connect(chroot: str) -> Iterator[Connect]:
    """``connect(server or proxy, seconds, **callbacks)``: a started session below this test's chroot."""
    sessions: list[Session] = []

    def start(at: Server | Proxy, seconds: float = 2.0, **callbacks: Callable[[], None]) -> Session:
        settings = ZooKeeperSettings(hosts=at.hosts + chroot, session_timeout_seconds=seconds)
        sessions.append(Session(settings, **callbacks))
        sessions[-1].start()
        sessions[-1].ensure("/ocb")
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


@pytest.fixture
def interrupted(proxy: Proxy, chroot: str) -> Iterator[InterruptedSession]:
    """A session through the proxy that outlives short cuts, below this test's chroot."""
    with InterruptedSession(ZooKeeperSettings(hosts=proxy.hosts + chroot, session_timeout_seconds=10.0)) as session:
        session.ensure("/ocb/thing")
        yield session
