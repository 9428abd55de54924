"""Transactions that the thread which makes them sends: at once, whole, in order, and none is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Change, Create, Set
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.session import Doubt, Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server


class Socket:
    """That of a connection; its next ``send`` is another."""

    def __init__(self, session: Session, send: Callable[[Any, Any], int]) -> None:
        self._connection = session._client._connection
        self._own, self._send = self._connection._socket, send
        self._connection._socket = self

    def send(self, data: Any) -> int:
        self._connection._socket = self._own
        return self._send(self._own, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def soon(session: Session, *changes: Change) -> SimpleQueue[Any]:
    """Where the answer to a transaction comes."""
    answers: SimpleQueue[Any] = SimpleQueue()
    session.commit_soon(changes, answers.put)
    return answers


def test_a_transaction_on_a_calm_connection_does_not_wait_for_another_thread(zk_session: Session) -> None:
    zk_session._client._connection.wake = lambda: None  # type: ignore[method-assign]
    (stat,) = soon(zk_session, Create("/ocb/a")).get(timeout=5)
    assert stat.version == 0


def test_a_transaction_of_which_the_kernel_takes_a_part_is_sent_whole(zk_session: Session) -> None:
    Socket(zk_session, lambda own, data: own.send(data[:7]))
    answers = soon(zk_session, Create("/ocb/a", {"x": 1}))
    later = soon(zk_session, Set("/ocb/a", {"x": 2}, 0))
    assert answers.get(timeout=5)[0].version == 0
    assert later.get(timeout=5)[0].version == 1


def test_no_ping_is_sent_within_a_transaction(zk_session: Session) -> None:
    connection = zk_session._client._connection
    wake = connection.wake

    def ping_first() -> None:
        connection.wake = wake  # type: ignore[method-assign]
        connection._send_ping(1.0)
        wake()

    connection.wake = ping_first  # type: ignore[method-assign]
    Socket(zk_session, lambda own, data: own.send(data[:7]))
    assert soon(zk_session, Create("/ocb/a")).get(timeout=5)[0].version == 0


def test_a_transaction_of_which_the_kernel_takes_nothing_is_sent_whole(zk_session: Session) -> None:
    def refuse(_own: Any, _data: Any) -> int:
        raise BlockingIOError

    Socket(zk_session, refuse)
    assert soon(zk_session, Create("/ocb/a")).get(timeout=5)[0].version == 0


def test_a_transaction_that_is_sent_while_the_connection_ends_is_not_forgotten(zk_session: Session) -> None:
    """Its answer never comes, and the connection's thread has told all others already."""
    live = zk_session._client._live

    def end(_own: Any, data: Any) -> int:
        live.clear()
        return len(data)

    Socket(zk_session, end)
    answers = soon(zk_session, Create("/ocb/a"))
    live.set()
    assert isinstance(answers.get(timeout=5), Doubt)
    assert zk_session.get("/ocb/a") is None, "the connection goes on with the next number"


def test_a_broken_connection_is_noticed_by_its_own_thread(zk_session: Session) -> None:
    def fail(own: Any, _data: Any) -> int:
        own.shutdown(2)
        raise OSError("broken")

    Socket(zk_session, fail)
    assert isinstance(soon(zk_session, Create("/ocb/a")).get(timeout=20), Doubt)


def test_watches_are_armed_again_before_the_first_transaction(zookeeper: Server, chroot: str) -> None:
    up = threading.Event()
    with Proxy(zookeeper.port) as proxy, Session(ZooKeeperSettings(hosts=proxy.hosts + chroot)) as session:
        session.ensure("/ocb")
        session.watch("/ocb", lambda *_: None)
        client = session._client
        connection, again, numbered = client._connection, client.connected_again, client._connection._numbered
        sent: list[int] = []

        def connected_again() -> None:
            soon(session, Create("/ocb/a"))
            again()
            up.set()

        def note(request: Any, completion: Any) -> tuple[bytes, bytes]:
            sent.append(request.type)
            both: tuple[bytes, bytes] = numbered(request, completion)
            return both

        client.connected_again, connection._numbered = connected_again, note
        proxy.cut()
        proxy.heal()
        assert up.wait(10)
        session.sync()
        assert sent[0] == frames.ADD_WATCH
        assert frames.MULTI in sent


@pytest.mark.parametrize("count", [2, 50])
def test_answers_come_in_the_order_of_the_transactions(zk_session: Session, count: int) -> None:
    zk_session.commit([Create("/ocb/a")])
    answers: SimpleQueue[Any] = SimpleQueue()
    for version in range(count):
        zk_session.commit_soon([Set("/ocb/a", {"n": version}, version)], answers.put)
    assert [answers.get(timeout=5)[0].version for _ in range(count)] == list(range(1, count + 1))
