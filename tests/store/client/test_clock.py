"""ZooKeeper's time as a session knows it: from the answers to its writes, whatever this host's clock says."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Set
from nodepool_ocb.store.client.clock import Clock
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server

NOW = """
import sys, time
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
with Session(ZooKeeperSettings(hosts=sys.argv[1])) as session:
    print(session.now(), time.time())
"""

moments = st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=20)


@given(moments)
def test_the_estimate_is_off_by_no_more_than_the_newest_answer_took(pauses: list[tuple[float, float, float]]) -> None:
    """The server's clock is 1,000 ahead of the monotonic one; each write waits, is written, and is answered."""
    clock, at = Clock(), 0.0
    for before, going, coming in pauses:
        sent = at + before
        at = sent + going + coming
        clock.saw(1000.0 + sent + going, sent, at)
        assert abs(clock.at(at) - (1000.0 + at)) <= going + coming + 1e-6


def test_another_leaders_clock_moves_the_time_forward_and_back() -> None:
    clock = Clock()
    for mtime, sent in ((1000.0, 1.0), (8200.0, 2.0), (1002.0, 3.0)):
        clock.saw(mtime, sent, sent + 0.5)
        assert clock.at(sent + 0.5) == pytest.approx(mtime, abs=0.5)


def test_the_time_is_the_one_that_zookeeper_writes(zk_session: Session) -> None:
    before = zk_session.now()
    zk_session.commit([Create("/ocb/a"), Set("/ocb/a", {"n": 1}, 0)])
    znode = zk_session.get("/ocb/a")
    assert znode is not None
    assert before - 0.001 <= znode.mtime <= zk_session.now() + 1.0


@pytest.mark.parametrize("hours", [2, -2])
def test_a_process_whose_own_clock_is_wrong_knows_the_time(
    zookeeper: Server, zk_session: Session, chroot: str, hours: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOW, zookeeper.hosts + chroot],
        env=skewed(hours * 3600), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    theirs, own = map(float, done.stdout.split())
    assert own - time.time() == pytest.approx(hours * 3600, abs=60)
    assert theirs == pytest.approx(zk_session.now(), abs=60)


def test_every_answer_to_a_write_tells_the_time_and_a_new_connection_asks(
    proxy: Proxy, connect: Callable[..., Session], until: Callable[..., None]
) -> None:
    session = connect(proxy, 10.0)
    session.now()
    _slept(session)
    proxy.cut()
    proxy.heal()
    until(lambda: session.now() == pytest.approx(time.time(), abs=60), 30.0)
    session.commit([Create("/ocb/b")])
    _slept(session)
    session.commit([Set("/ocb/b", {"n": 1}, 0)])
    assert session.now() == pytest.approx(time.time(), abs=60)


def _slept(session: Session) -> None:
    """As if this host had been suspended since 1970."""
    now = time.monotonic()
    session._clock.saw(0.0, now, now)
    assert session.now() < 60.0


def test_a_reader_creates_no_znodes_to_learn_the_time(zookeeper: Server, chroot: str) -> None:
    with Session(ZooKeeperSettings(hosts=zookeeper.hosts + chroot)) as session:
        assert session.now() == pytest.approx(time.time(), abs=60)
        assert session.get("/") is None
        session.ensure(paths.ROOT)
        session.now()
        assert session.get(paths.CLOCK) is not None
