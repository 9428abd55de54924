"""A session whose server is killed, frozen or cut off: nothing is claimed that is not so, and nothing is missed."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient

from nodepool_ocb.errors import OcbError, OutcomeUnknown, Stale, Unavailable
from nodepool_ocb.model.records import Append, Create, Delete, Deployment, Set
from nodepool_ocb.store.client.session import Doubt, Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server

Connect = Callable[..., Session]
Until = Callable[..., None]


def expire(server: Server, session: Session) -> None:
    """End a session as ZooKeeper's own tests do: another client takes it over, and closes it."""
    other = KazooClient(server.hosts, client_id=session._client.client_id)
    other.start()
    other.stop()
    other.close()


def commit_in_background(session: Session, changes: list[Any]) -> tuple[threading.Thread, list[Any]]:
    result: list[Any] = []

    def work() -> None:
        try:
            result.append(session.commit(changes))
        except OcbError as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, result


def test_a_lost_session_is_told_and_replaced(breakable: Server, connect: Connect, until: Until) -> None:
    lost = threading.Event()
    session = connect(breakable, on_lost=lost.set)
    first = session.id
    session.commit([Create("/ocb/mine", None, ephemeral=True)])
    expire(breakable, session)
    assert lost.wait(60)
    until(lambda: session.connected)
    assert session.id not in (first, 0)
    assert session.get("/ocb/mine") is None


def test_a_watch_outlives_a_lost_session(breakable: Server, connect: Connect, until: Until) -> None:
    seen: list[str] = []
    up = threading.Semaphore(0)
    session, writer = connect(breakable, on_connected=up.release), connect(breakable)
    session.watch("/ocb", lambda _kind, path: seen.append(path))
    assert up.acquire(timeout=60)
    expire(breakable, session)
    assert up.acquire(timeout=60)
    session.get("/ocb")  # answered after the watch, which is armed first
    writer.commit([Create("/ocb/late")])
    until(lambda: seen == ["/ocb/late"])


def test_a_watch_outlives_a_cut_and_a_restart(breakable: Server, proxy: Proxy, connect: Connect, until: Until) -> None:
    seen: list[str] = []
    up = threading.Semaphore(0)
    session = connect(proxy, 5.0, on_connected=up.release)
    session.watch("/ocb", lambda _kind, path: seen.append(path))
    first = session.id
    for number, fault in enumerate((proxy.cut, breakable.restart)):
        while up.acquire(blocking=False):
            pass
        fault()
        proxy.heal()
        assert up.acquire(timeout=60)
        session.commit([Create(f"/ocb/{number}")])
        until(lambda number=number: seen and seen[-1] == f"/ocb/{number}")
    assert session.id == first


def test_without_a_connection_requests_are_refused_at_once(proxy: Proxy, connect: Connect, until: Until) -> None:
    session = connect(proxy)
    proxy.cut()
    until(lambda: not session.connected)
    took = []
    for _ in range(5):  # the machine may be busy at one of them
        began = time.monotonic()
        with pytest.raises(Unavailable, match="no connection to ZooKeeper"):
            session.get("/ocb")
        with pytest.raises(Unavailable) as refused:
            session.commit([Create("/ocb/a")])
        assert not isinstance(refused.value, OutcomeUnknown)
        took.append(time.monotonic() - began)
    assert min(took) < 0.5
    proxy.heal()
    until(lambda: session.connected)
    assert session.get("/ocb/a") is None
    assert session.ambiguous == 0


def test_trust_ends_before_the_session_does(breakable: Server, connect: Connect, until: Until) -> None:
    session = connect(breakable, 3.0)
    assert session.trusted
    breakable.stop()
    try:
        silent = session.silent_seconds
        while session.trusted:
            assert silent < 2.5, "it was trusted after so long a silence"
            time.sleep(0.005)
            silent = session.silent_seconds
    finally:
        breakable.cont()
    until(lambda: session.trusted)


PAUSED = """
import sys, time
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
session = Session(ZooKeeperSettings(hosts=sys.argv[1], session_timeout_seconds=2.0))
session.start()
print("up", flush=True)
end = time.monotonic() + 60
while session.trusted and time.monotonic() < end:
    pass
print(time.monotonic() < end, flush=True)
session.close()
"""


def test_a_process_that_was_stopped_does_not_trust_what_waited_for_it(breakable: Server) -> None:
    with subprocess.Popen([sys.executable, "-c", PAUSED, breakable.hosts], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        for _ in range(10):  # a new answer may come before the process looks at its trust; an old one gives it none
            child.send_signal(signal.SIGSTOP)
            time.sleep(1.6)  # this is the pause itself, not a wait for something
            child.send_signal(signal.SIGCONT)
            if select.select([child.stdout], [], [], 0.5)[0]:
                break
        assert child.stdout.readline() == "True\n"


def test_an_idle_session_stays_trusted(breakable: Server, connect: Connect) -> None:
    session = connect(breakable, 3.0)  # a third of it without an answer is no fault of the session
    deadline = time.monotonic() + 4.5
    while time.monotonic() < deadline:
        assert session.trusted
        time.sleep(0.01)


def test_a_commit_that_was_applied_though_its_answer_was_lost(proxy: Proxy, connect: Connect) -> None:
    session = connect(proxy, 10.0)
    session.commit([Create("/ocb/a")])
    swallowed = proxy.drop_answers()
    thread, result = commit_in_background(session, [Set("/ocb/a", Deployment(by="me"), 0), Create("/ocb/b")])
    assert swallowed.wait(60)
    proxy.heal()
    thread.join(60)
    znode = session.get("/ocb/a")
    assert znode is not None
    assert [stat.version for stat in result[0]] == [1, 0]
    assert result[0][0].mzxid == znode.mzxid == result[0][1].mzxid
    assert (session.ambiguous, session.unresolved) == (1, 0)


def test_a_commit_that_never_arrived(proxy: Proxy, connect: Connect) -> None:
    session = connect(proxy, 10.0)
    session.commit([Create("/ocb/a")])
    swallowed = proxy.drop_requests()
    thread, result = commit_in_background(session, [Set("/ocb/a", {"n": 1}, 0)])
    assert swallowed.wait(60)
    proxy.heal()
    thread.join(60)
    assert type(result[0]) is Unavailable
    assert session.ambiguous == 1
    znode = session.get("/ocb/a")
    assert znode is not None
    assert znode.version == 0
    assert session.unresolved == 0


def test_an_answer_lost_for_a_refused_commit(breakable: Server, proxy: Proxy, connect: Connect) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    session.commit([Create("/ocb/a")])
    other.commit([Set("/ocb/a", {"other": True}, 0)])
    swallowed = proxy.drop_answers()
    thread, result = commit_in_background(session, [Set("/ocb/a", {"n": 1}, 0)])
    assert swallowed.wait(60)
    proxy.heal()
    thread.join(60)
    assert isinstance(result[0], Stale)
    assert result[0].path == "/ocb/a"


def test_a_commit_over_which_others_wrote_stays_unknown(breakable: Server, proxy: Proxy, connect: Connect) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    session.commit([Create("/ocb/a")])
    swallowed = proxy.drop_answers()
    thread, result = commit_in_background(session, [Set("/ocb/a", Deployment(by="me"), 0)])
    assert swallowed.wait(60)
    other.commit([Set("/ocb/a", {"other": True}, 1)])
    proxy.heal()
    thread.join(60)
    assert type(result[0]) is OutcomeUnknown
    assert session.unresolved == 1


def test_commit_soon_hands_the_doubt_over_and_resolve_settles_it(proxy: Proxy, connect: Connect, until: Until) -> None:
    session = connect(proxy, 10.0)
    swallowed = proxy.drop_answers()
    answers: list[Any] = []
    session.commit_soon([Create("/ocb/a", Deployment(by="me"))], answers.append)
    assert swallowed.wait(60)
    proxy.heal()
    until(lambda: answers)
    assert isinstance(answers[0], Doubt)
    stats = session.resolve(answers[0])
    assert stats[0] is not None
    assert stats[0].version == 0


@pytest.mark.parametrize("deleter", ["we", "another"])
def test_a_deletion_alone_stays_unknown(breakable: Server, proxy: Proxy, connect: Connect, deleter: str) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    session.commit([Create("/ocb/a")])
    if deleter == "another":
        other.commit([Delete("/ocb/a", 0)])
    swallowed = proxy.drop_answers()
    thread, result = commit_in_background(session, [Delete("/ocb/a", 0)])
    assert swallowed.wait(60)
    proxy.heal()
    thread.join(60)
    assert type(result[0]) is OutcomeUnknown


@pytest.mark.parametrize("loss", ["answer", "request"])
def test_a_number_whose_answer_was_lost_is_found_by_its_record(proxy: Proxy, connect: Connect, loss: str) -> None:
    session = connect(proxy, 10.0)
    swallowed = proxy.drop_answers() if loss == "answer" else proxy.drop_requests()
    threading.Thread(target=lambda: (swallowed.wait(60), proxy.heal())).start()
    if loss == "answer":
        assert session.create_next("/ocb/", Deployment(by="me")) == "/ocb/0000000000"
    else:
        with pytest.raises(OutcomeUnknown):
            session.create_next("/ocb/", Deployment(by="me"))


@pytest.mark.parametrize("loss", ["answer", "request"])
@pytest.mark.parametrize("before", [0, 150])  # entries, more than are read at once
def test_an_entry_of_the_journal_proves_what_an_empty_znode_cannot(
    breakable: Server, proxy: Proxy, connect: Connect, loss: str, before: int
) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    session.ensure("/ocb/journal")
    if before:
        other.commit([Append("/ocb/journal", Deployment(by="others"))] * before)
    swallowed = proxy.drop_answers() if loss == "answer" else proxy.drop_requests()
    thread, result = commit_in_background(session, [Create("/ocb/a"), Append("/ocb/journal", Deployment(by="me"))])
    assert swallowed.wait(60)
    other.commit([Append("/ocb/journal", Deployment(by="others"))] * 5)
    proxy.heal()
    thread.join(60)
    assert (session.ambiguous, session.unresolved) == (1, 0)
    if loss == "answer":
        assert isinstance(result[0], list), result
        assert result[0][0].mzxid > 0
    else:
        assert type(result[0]) is Unavailable


def test_closing_does_not_hang_on_a_frozen_server(breakable: Server, connect: Connect) -> None:
    session = connect(breakable, 30.0)
    breakable.stop()
    try:
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 5.0
    finally:
        breakable.cont()


def test_closing_without_a_connection_is_quick(proxy: Proxy, connect: Connect) -> None:
    session = connect(proxy)
    proxy.cut()
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 5.0
    with pytest.raises(Unavailable):
        session.get("/ocb")


def test_hundreds_in_flight_are_all_answered_when_the_connection_breaks(
    proxy: Proxy, connect: Connect, until: Until
) -> None:
    session = connect(proxy)
    answers: dict[int, Any] = {}
    for number in range(500):
        session.commit_soon([Create(f"/ocb/{number}", {"n": number})], partial(answers.__setitem__, number))
        if number == 250:
            proxy.cut()
    proxy.heal()
    until(lambda: len(answers) == 500)
    until(lambda: session.connected)
    there = set(session.children("/ocb") or [])
    for number, result in answers.items():
        if isinstance(result, list):
            assert str(number) in there
        elif type(result) is Unavailable:
            assert str(number) not in there
        else:
            assert type(result) is Doubt
