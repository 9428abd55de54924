"""kazoo's lock without waiting: one holder, whoever contends, and nobody kept out by what a broken connection left."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid, Stale, Unavailable
from nodepool_ocb.model.records import Change, Create, Delete, LockOwner, Set
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.locks import HeldLocks, Locks, holders
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.store.interrupted_session import InterruptedSession

Connect = Callable[..., Session]
Until = Callable[..., None]

PATH = "/ocb/thing/lock"
ME = LockOwner(daemon="builder", host="h", pid=1, purpose="build debian", since=1.0)


@pytest.fixture
def session(zk_session: Session) -> Session:
    zk_session.ensure("/ocb/thing")
    return zk_session


def requests(session: Session) -> int:
    sent: int = session._client._connection._xid
    return sent


# -- a new lock --


def test_a_new_lock_is_taken_with_other_changes_in_one_transaction(session: Session, kazoo: KazooClient) -> None:
    lock = Locks(session).take_new(PATH, ME, [Create("/ocb/thing/beside")])
    assert lock is not None
    assert session.get("/ocb/thing/beside") is not None
    assert lock.held(session)
    assert holders(session, [PATH]) == [ME]
    theirs = kazoo.Lock(PATH)
    assert not theirs.acquire(blocking=False)
    later = kazoo.create(f"{PATH}/x__lock__", ephemeral=True, sequence=True)
    assert later[-10:] > lock.contender[-10:]
    Locks(session).release(lock)
    assert session.get(lock.contender) is None


def test_a_lock_that_exists_is_not_taken_as_a_new_one_and_nothing_is_written(session: Session) -> None:
    session.ensure(PATH)
    assert Locks(session).take_new(PATH, ME, [Create("/ocb/thing/beside")]) is None
    assert session.get("/ocb/thing/beside") is None
    assert session.children(PATH) == []


@pytest.mark.parametrize("beside", [Create("/ocb/thing"), Delete("/ocb/thing/absent", 0)])
def test_a_new_lock_is_not_taken_without_the_changes_beside_it(session: Session, beside: Change) -> None:
    with pytest.raises(Stale):
        Locks(session).take_new(PATH, ME, [beside])
    assert session.get(PATH) is None


def test_a_new_lock_of_a_record_that_is_gone_is_not_taken(session: Session) -> None:
    with pytest.raises(Stale):
        Locks(session).take_new("/ocb/gone/lock", ME)
    assert session.get("/ocb/gone") is None


def test_a_transaction_with_the_check_of_a_lock_is_refused_after_the_lock_was_lost(session: Session) -> None:
    lock = Locks(session).take_new(PATH, ME)
    assert lock is not None
    session.commit([lock.check, Create("/ocb/thing/one")])
    session.commit([lock.end, Create("/ocb/thing/two")])
    with pytest.raises(Stale):
        session.commit([lock.check, Create("/ocb/thing/three")])
    assert session.get("/ocb/thing/three") is None


def test_a_process_holds_many_locks_and_takes_none_twice(session: Session) -> None:
    held = HeldLocks(session)
    places = [f"/ocb/thing/lock-{number}" for number in range(50)]
    assert all(held.take(path, ME) for path in places)
    assert held.take(places[0], ME) is None
    assert sorted(held.all()) == sorted(places)
    before = held.changes
    held.release(places[0])
    assert held.changes > before
    assert held.get(places[0]) is None
    assert held.take(places[0], ME)
    assert held.forget(places[1])
    assert session.children(places[1])  # the transaction that ended it is another's
    held.release("/ocb/thing/never")


# -- alone --


def test_a_lock_is_taken_once_and_again_when_it_was_released(session: Session) -> None:
    locks = Locks(session)
    lock = locks.take(PATH, ME)
    assert lock is not None
    assert lock.held(session)
    assert locks.take(PATH, ME) is None
    locks.release(lock)
    again = locks.take(PATH, ME)
    assert again is not None
    assert again.contender != lock.contender


def test_releasing_twice_harms_nobody(session: Session) -> None:
    locks = Locks(session)
    first = locks.take(PATH, ME)
    assert first is not None
    locks.release(first)
    second = locks.take(PATH, ME)
    locks.release(first)
    locks.sweep()
    assert second is not None
    assert session.get(second.contender) is not None
    assert locks.take(PATH, ME) is None


def test_a_thousand_takes_leave_nothing(session: Session) -> None:
    locks = Locks(session)
    holder = locks.take("/ocb/thing/held", ME)
    sent = requests(session)
    for _ in range(500):
        lock = locks.take(PATH, ME)
        assert lock is not None
        locks.release(lock)
        assert locks.take("/ocb/thing/held", ME) is None
    assert requests(session) - sent <= 500 * 5 + 1  # look, stand there, look again, go; and one look at what is held
    assert session.children(PATH) == []
    assert holder is not None
    assert session.children("/ocb/thing/held") == [holder.contender.rpartition("/")[2]]


def test_what_does_not_exist_is_not_locked_and_not_made(session: Session) -> None:
    before = session.last_zxid
    assert Locks(session).take("/ocb/none/builds/lock", ME) is None
    session.get("/ocb")
    assert session.get("/ocb/none") is None
    assert session.last_zxid - before <= 1  # the refusal of the lock's own znode has a number, too


def test_a_purpose_as_large_as_a_book_is_refused_before_it_is_sent(session: Session) -> None:
    with pytest.raises(Invalid, match="more than it may hold"):
        Locks(session).take(PATH, LockOwner(daemon="d", host="h", pid=1, purpose="x" * 300_000, since=1.0))
    assert session.connected
    assert Locks(session).take(PATH, ME) is not None


def test_create_next_gives_numbers_that_were_never_given_before(session: Session) -> None:
    first = session.create_next("/ocb/thing/", {"n": 1})
    assert first == "/ocb/thing/0000000000"
    session.commit([Delete(first, 0)])
    assert session.create_next("/ocb/thing/", {"n": 2}) == "/ocb/thing/0000000001"
    assert session.create_next("/ocb/thing/x-", None) == "/ocb/thing/x-0000000002"
    with pytest.raises(Stale):
        session.create_next("/ocb/none/", {})


# -- with kazoo --


def test_kazoos_own_lock_is_kept_out(session: Session, kazoo: KazooClient) -> None:
    locks = Locks(session)
    lock = locks.take(PATH, ME)
    assert lock is not None
    assert not kazoo.Lock(PATH).acquire(blocking=False)
    assert len(session.children(PATH) or []) == 1
    locks.release(lock)
    assert kazoo.Lock(PATH).acquire(blocking=False)


def test_kazoos_own_lock_keeps_us_out(session: Session, kazoo: KazooClient) -> None:
    locks, theirs = Locks(session), kazoo.Lock(PATH, "builder-1")
    assert theirs.acquire()
    assert locks.take(PATH, ME) is None
    assert len(session.children(PATH) or []) == 1
    theirs.release()
    assert locks.take(PATH, ME) is not None


def test_kazoos_waiting_lock_gets_it_when_we_let_go(session: Session, kazoo: KazooClient, until: Until) -> None:
    locks, theirs = Locks(session), kazoo.Lock(PATH)
    lock = locks.take(PATH, ME)
    assert lock is not None
    waiting = threading.Thread(target=theirs.acquire)
    waiting.start()
    until(lambda: len(session.children(PATH) or []) == 2)
    assert locks.take(PATH, ME) is None  # and does not stand in the queue
    locks.release(lock)
    waiting.join(10)
    assert theirs.is_acquired
    theirs.release()


def test_holders_say_who_they_are(session: Session, kazoo: KazooClient) -> None:
    session.ensure("/ocb/thing/b", "/ocb/thing/c")
    Locks(session).take(PATH, ME)
    kazoo.Lock("/ocb/thing/b", "builder-1").acquire()
    session.commit([Create("/ocb/thing/c/remark", {"not": "a contender"})])
    ours, theirs, nobody, absent = holders(session, [PATH, "/ocb/thing/b", "/ocb/thing/c", "/ocb/thing/none"])
    assert ours == ME
    assert theirs is not None
    assert (theirs.daemon, theirs.purpose) == ("?", "builder-1")
    assert abs(theirs.since - time.time()) < 60
    assert (nobody, absent) == (None, None)


# -- many at once --

RACER = """
import sys
import time
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale
from nodepool_ocb.model.records import Create, Delete, LockOwner
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.client.session import Session
hosts, path, inside, tries = sys.argv[1:]
me, held = LockOwner(daemon="d", host="h", pid=1, purpose="race", since=1.0), 0
with Session(ZooKeeperSettings(hosts=hosts)) as session:
    locks = Locks(session)
    print("up", flush=True)
    sys.stdin.readline()
    tried, end = 0, time.monotonic() + 60.0
    while tried < int(tries) or (not held and time.monotonic() < end):
        tried += 1
        lock = locks.take(path, me)
        if lock is not None:
            session.commit([Create(inside)])  # Stale where another is inside
            session.commit([Delete(inside, 0)])
            locks.release(lock)
            held += 1
print(held, flush=True)
"""


def test_processes_and_kazoo_race_and_one_holds(session: Session, kazoo: KazooClient) -> None:
    hosts = session._hosts
    arguments = [sys.executable, "-c", RACER, hosts, PATH, "/ocb/inside", "300"]
    racers = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "up\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    doubles = held = 0
    while any(racer.poll() is None for racer in racers):
        lock = kazoo.Lock(PATH)
        if lock.acquire(blocking=False):
            held += 1
            try:
                kazoo.create("/ocb/inside")
                kazoo.delete("/ocb/inside")
            except NodeExistsError:
                doubles += 1
            lock.release()
    ends = [racer.communicate(timeout=60)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert doubles == 0
    assert all(int(end) > 0 for end in ends), ends  # nobody is kept out for ever
    assert session.children(PATH) == []


def test_threads_of_one_process_race_and_one_holds(session: Session) -> None:
    locks, inside, failures, held = Locks(session), threading.Lock(), [], itertools.count()

    def work() -> None:
        try:
            for _ in range(80):
                lock = locks.take(PATH, ME)
                if lock is not None:
                    assert inside.acquire(blocking=False)
                    next(held)
                    inside.release()
                    locks.release(lock)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert next(held) > 0
    assert session.children(PATH) == []


HOLDER = """
import sys
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.client.session import Session
session = Session(ZooKeeperSettings(hosts=sys.argv[1], session_timeout_seconds=float(sys.argv[2])))
session.start()
print(Locks(session).take(sys.argv[3], LockOwner(daemon="d", host="h", pid=1, purpose="p", since=1.0)), flush=True)
sys.stdin.readline()
"""


def test_the_lock_of_a_killed_process_is_free_within_its_sessions_time(
    breakable: Server, connect: Connect, until: Until
) -> None:
    session = connect(breakable)
    session.ensure("/ocb/thing")
    arguments = [sys.executable, "-c", HOLDER, session._hosts, "1.0", PATH]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("Lock")
        locks = Locks(session)
        assert locks.take(PATH, ME) is None
        os.kill(child.pid, signal.SIGKILL)
        began = time.monotonic()
        until(lambda: locks.take(PATH, ME), 5.0)
        assert time.monotonic() - began < 1.0 + 0.5  # and some ticks


# -- broken connections --


def lose(proxy: Proxy, what: str) -> Callable[[], Callable[[], None]]:
    def disturb() -> Callable[[], None]:
        swallowed = proxy.drop_answers() if what == "answer" else proxy.drop_requests()

        def after() -> None:
            assert swallowed.wait(5)
            proxy.heal()

        return after

    return disturb


@pytest.mark.parametrize("what", ["answer", "request"])
@pytest.mark.parametrize("at", range(1, 6))  # look, make its znode, stand there, look again, go
def test_lost_answers_leave_no_contender_of_a_lock_behind(
    breakable: Server, proxy: Proxy, interrupted: InterruptedSession, connect: Connect, until: Until, what: str, at: int
) -> None:
    locks, others = Locks(interrupted), Locks(connect(breakable))
    first = interrupted.id
    interrupted.disturb, interrupted.at = lose(proxy, what), at
    lock = None
    with contextlib.suppress(Unavailable):
        lock = locks.take(PATH, ME)
    if lock is not None:
        assert others.take(PATH, ME) is None
        locks.release(lock)
    until(lambda: interrupted.connected)
    locks.sweep()
    assert interrupted.id == first  # so its ephemeral znodes are still there
    assert interrupted.children(PATH) in (None, [])
    sent = requests(interrupted)
    locks.sweep()
    assert requests(interrupted) == sent
    theirs = others.take(PATH, ME)
    assert theirs is not None
    assert locks.take(PATH, ME) is None


def test_taking_another_lock_takes_away_what_was_left(
    breakable: Server, proxy: Proxy, interrupted: InterruptedSession, connect: Connect, until: Until
) -> None:
    locks, others = Locks(interrupted), Locks(connect(breakable))
    interrupted.disturb, interrupted.at = lose(proxy, "answer"), 4  # it stands there, and looks again
    with pytest.raises(Unavailable):
        locks.take(PATH, ME)
    until(lambda: interrupted.connected)
    assert others.take(PATH, ME) is None  # it is there
    assert locks.take("/ocb/thing/another", ME) is not None
    assert others.take(PATH, ME) is not None


def test_a_contender_that_is_written_while_it_is_swept_goes_with_the_next_sweep(
    session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(session)
    lock = locks.take(PATH, ME)
    assert lock is not None
    locks.leave(lock)
    with Session(zk_settings) as another, monkeypatch.context() as patch:

        def commit(changes: Sequence[Change]) -> Stats:
            another.commit([Set(lock.contender, ME, 0)])
            return Session.commit(session, changes)

        patch.setattr(session, "commit", commit)
        locks.sweep()
        assert session.children(PATH) == [lock.contender.rpartition("/")[2]]
    locks.sweep()
    assert session.children(PATH) == []
    sent = requests(session)
    locks.sweep()
    assert requests(session) == sent, "nothing is left to sweep"


def test_without_a_connection_a_lock_is_released_later(
    breakable: Server, proxy: Proxy, interrupted: InterruptedSession, connect: Connect, until: Until
) -> None:
    locks, others = Locks(interrupted), Locks(connect(breakable))
    lock = locks.take(PATH, ME)
    assert lock is not None
    proxy.cut()
    until(lambda: not interrupted.connected)
    locks.release(lock)
    with pytest.raises(Unavailable):
        locks.sweep()
    assert others.take(PATH, ME) is None
    proxy.heal()
    until(lambda: interrupted.connected)
    locks.sweep()
    assert others.take(PATH, ME) is not None


@pytest.mark.parametrize("at", range(1, 5))
def test_what_is_deleted_while_it_is_locked_does_not_come_back(
    breakable: Server, interrupted: InterruptedSession, connect: Connect, at: int
) -> None:
    other = connect(breakable)

    def delete() -> None:
        for path in (*(f"{PATH}/{name}" for name in other.children(PATH) or ()), PATH, "/ocb/thing"):
            if other.get(path) is not None:
                other.commit([Delete(path, 0)])

    interrupted.disturb, interrupted.at = delete, at
    assert Locks(interrupted).take(PATH, ME) is None
    assert other.get("/ocb/thing") is None


def expire(server: Server, session: Session) -> None:
    other = KazooClient(server.hosts, client_id=session._client.client_id)
    other.start()
    other.stop()
    other.close()


@pytest.mark.parametrize("at", range(1, 5))
def test_a_lock_is_not_taken_across_sessions(
    breakable: Server, interrupted: InterruptedSession, connect: Connect, until: Until, at: int
) -> None:
    first, others, locks = interrupted.id, Locks(connect(breakable)), Locks(interrupted)

    def replace() -> None:
        expire(breakable, interrupted)
        until(lambda: interrupted.id not in (first, 0) and interrupted.connected)

    interrupted.disturb, interrupted.at = replace, at
    lock = locks.take(PATH, ME)
    if lock is not None:
        assert lock.held(interrupted)
        locks.release(lock)
    assert interrupted.children(PATH) == []
    assert others.take(PATH, ME) is not None


def test_a_lock_of_a_lost_session_is_not_held(breakable: Server, connect: Connect, until: Until) -> None:
    session = connect(breakable)
    session.ensure("/ocb/thing")
    locks, first = Locks(session), session.id
    lock = locks.take(PATH, ME)
    assert lock is not None
    expire(breakable, session)
    until(lambda: session.id not in (first, 0) and session.connected)
    assert not lock.held(session)
    again = Locks(session).take(PATH, ME)
    assert again is not None
    locks.release(lock)
    assert session.get(again.contender) is not None


@pytest.mark.long
def test_a_storm_of_lost_answers_leaves_nothing(
    breakable: Server, proxy: Proxy, interrupted: InterruptedSession, connect: Connect, until: Until
) -> None:
    locks, others, chance = Locks(interrupted), Locks(connect(breakable)), random.Random(1)
    for _ in range(150):
        interrupted.disturb = lose(proxy, chance.choice(["answer", "request"]))
        interrupted.at = chance.randrange(1, 8)
        try:
            for _ in range(3):
                if (lock := locks.take(PATH, ME)) is not None:
                    assert others.take(PATH, ME) is None
                    locks.release(lock)
        except Unavailable:
            pass
        interrupted.at = 0
        until(lambda: interrupted.connected)
    locks.sweep()
    assert interrupted.children(PATH) == []
