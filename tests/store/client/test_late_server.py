"""A server that is frozen, mute, or wrong about sessions: it is left for another while the session lives."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from kazoo.retry import ForceRetryError

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.records import Create, Delete
from nodepool_ocb.store.client.heart import ROUND_SECONDS
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from nodepool_ocb.testing.zookeeper.forgetful import Forgetful
from nodepool_ocb.testing.zookeeper.server import Server

SESSION_SECONDS = 10.0
SLACK_SECONDS = 3.0

Until = Callable[..., None]


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    with Ensemble(proxied=False) as ensemble:
        yield ensemble


@pytest.fixture
def sessions(ensemble: Ensemble, chroot: str) -> Iterator[list[Session]]:
    """Some, as a rule not all with one server."""
    settings = ZooKeeperSettings(hosts=ensemble.hosts + chroot, session_timeout_seconds=SESSION_SECONDS)
    with ExitStack() as stack:
        opened = [stack.enter_context(Session(settings)) for _ in range(4)]
        opened[0].ensure("/ocb")
        yield opened


def writes(session: Session, name: str) -> bool:
    try:
        session.commit([Create(f"/ocb/{name}")])
        session.commit([Delete(f"/ocb/{name}", 0)])
    except OcbError:
        return False
    return True


def seconds_until_all_write(sessions: list[Session]) -> float:
    began = time.monotonic()

    def work(number: int) -> None:
        tried = itertools.count()  # a znode whose creation has no answer may be there: another name each time
        while not writes(sessions[number], f"{number}-{began}-{next(tried)}") and time.monotonic() < began + 60.0:
            time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
def test_with_a_frozen_leader_all_write_again_soon_and_in_their_sessions(
    ensemble: Ensemble, sessions: list[Session], times: int
) -> None:
    """Each is thawed before the next is frozen, and may then say anything of sessions."""
    before = [session.id for session in sessions]
    for _ in range(times):
        frozen = ensemble.leader()
        frozen.stop()
        try:
            assert seconds_until_all_write(sessions) < SESSION_SECONDS + SLACK_SECONDS
        finally:
            frozen.cont()
        assert seconds_until_all_write(sessions) < SESSION_SECONDS + SLACK_SECONDS
        frozen.await_serving()
    assert [session.id for session in sessions] == before


@pytest.mark.long
def test_a_server_that_accepts_and_says_nothing_keeps_nobody_for_long(zookeeper: Server, until: Until) -> None:
    with ExitStack() as stack:
        mute = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)]
        proxy = stack.enter_context(Proxy(zookeeper.port))
        hosts = ",".join([*(f"127.0.0.1:{port}" for port in mute), proxy.hosts])
        session = Session(ZooKeeperSettings(hosts=hosts, session_timeout_seconds=20.0))
        stack.callback(session.close)
        session.start(timeout_seconds=60.0)
        began, known = time.monotonic(), session.id
        proxy.cut()
        until(lambda: not session.connected)
        proxy.heal()
        until(lambda: session.connected, 60.0)
        assert time.monotonic() - began < 18.0
        assert session.id == known


def test_one_server_alone_ends_no_session(zookeeper: Server, until: Until) -> None:
    with Forgetful() as wrong, Proxy(zookeeper.port) as proxy:
        hosts = f"{wrong.hosts},{proxy.hosts}"
        with Session(ZooKeeperSettings(hosts=hosts, session_timeout_seconds=20.0)) as session:
            known, answered, connections = session.id, wrong.answered, session.connections
            while wrong.answered < answered + 10:  # by chance it is asked first or last: ten times leave no doubt
                proxy.cut()
                proxy.heal()  # at once: who finds nobody else asks the wrong one twice, and that is enough
                until(lambda seen=connections: session.connections > seen, 30.0)
                connections = session.connections
            assert session.id == known


def test_while_no_server_answers_the_pauses_between_two_rounds_do_not_shrink() -> None:
    slept: list[float] = []
    rounds = iter(range(2000))

    def nobody_answers() -> None:
        if next(rounds, None) is not None:
            raise ForceRetryError

    again = Session(ZooKeeperSettings(hosts="127.0.0.1:1"))._client._connection.retry_sleeper.copy()
    again.sleep_func, again.interrupt = slept.append, None
    again(nobody_answers)
    assert len(slept) == 2000
    assert 0.5 * ROUND_SECONDS < min(slept) <= max(slept) < 1.5 * ROUND_SECONDS
