"""A cache that reads ahead: it is woken by the answer, shows everything in its order, and rests where others write much."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Claim, Create, Delete, Gate, NodeRole, Set, State, Structure
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import BATCH
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.arrivals import Arrivals
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.store.test_cache import Counted, machine, picture, requests

OS = paths.noderole("os", "n1")


def loaded(session: Session, *roles: str) -> Counted:
    """A cache that reads ahead, with one node."""
    session.commit(machine("n1", *roles))
    cache = Counted(session, ahead=True)
    cache.load()
    while cache.woken.acquire(blocking=False):
        pass
    return cache


def set_state(session: Session, state: State, version: int, path: str = OS) -> None:
    session.commit([Set(path, NodeRole(state=state, since=2.0), version)])


def state_of(cache: Counted, name: str = "os@n1") -> State:
    vertex = cache.world.vertex(name)
    assert vertex is not None
    return vertex.record.state


def held(session: Session) -> tuple[list[Callable[[], object]], Any]:
    """Answers to reads ahead that the connection gives later: each is given by a call."""
    waiting: list[Callable[[], object]] = []
    send = session.send_read

    def send_read(wanted: Sequence[str], then: Callable[[], object] | None = None) -> Callable[[], list[Znode | None]]:
        assert then is not None, "a cache waits for no answer"
        return send(wanted, lambda: waiting.append(then))

    session.send_read = send_read  # type: ignore[method-assign]
    return waiting, send


def test_a_change_by_another_is_read_before_it_wakes(zk_session: Session, other: Session) -> None:
    cache = loaded(zk_session, "os")
    sent = requests(zk_session)
    set_state(other, State.ACTIVE, 0)
    assert cache.woken.acquire(timeout=5)
    assert requests(zk_session) == sent + 1
    assert {vertex.name for vertex in cache.refresh().vertices} == {"os@n1"}
    assert requests(zk_session) == sent + 1, "refresh asked nothing"
    assert state_of(cache) is State.ACTIVE


def test_a_read_before_an_own_write_does_not_hide_it(zk_session: Session, other: Session) -> None:
    """The claim of another annealer is read, and then it goes and we claim: the older answer comes to the cache late."""
    cache = loaded(zk_session, "os")
    path = paths.claim("n1")
    claims = [Claim(annealer=each, noderole="os@n1", run="r", epoch=1, since=1.0) for each in ("a", "b")]
    other.commit([Create(path, claims[0])])
    assert cache.woken.acquire(timeout=5)  # the answer waits to be shown
    changes: list[Change] = [Delete(path, 0), Create(path, claims[1])]
    cache.expect(changes)
    cache.committed(changes, zk_session.commit(changes))
    cache.refresh()
    assert cache.world.nodes["n1"].claim == claims[1]


def test_a_path_with_a_write_of_ours_under_way_is_not_read_ahead(zk_session: Session, other: Session) -> None:
    cache = loaded(zk_session, "os")
    changes: list[Change] = [Set(OS, NodeRole(state=State.TRANSITION, since=2.0), 0)]
    cache.expect(changes)
    sent = requests(zk_session)
    set_state(other, State.ERROR, 0)
    zk_session.sync()
    assert requests(zk_session) == sent + 1, "the sync alone"
    cache.refused(changes)
    assert cache.woken.acquire(timeout=5)
    cache.refresh()
    assert state_of(cache) is State.ERROR


def test_a_path_of_which_the_event_came_before_our_write_is_not_read_behind_it(zk_session: Session) -> None:
    cache = loaded(zk_session, "os")
    changes: list[Change] = [Set(OS, NodeRole(state=State.TRANSITION, since=2.0), 0)]
    cache._arrivals.add(OS, alone=False)
    cache.expect(changes)
    sent = requests(zk_session)
    cache._arrivals.over()
    zk_session.sync()
    assert requests(zk_session) == sent + 1, "the sync alone"
    cache.committed(changes, zk_session.commit(changes))
    cache.refresh()
    assert state_of(cache) is State.TRANSITION


def test_an_event_is_kept_if_the_answer_to_our_write_is_taken_at_the_same_moment(
    zk_session: Session, other: Session
) -> None:
    class Taken(dict[str, int]):
        """The cache's thread takes the answer behind each question of the connection's thread."""

        def __contains__(self, path: object) -> bool:
            return bool(self.pop(str(path), 0))

    cache = loaded(zk_session, "os")
    cache._arrivals._reading = True  # the event waits
    set_state(other, State.ERROR, 0)
    zk_session.sync()
    cache._arrivals._reading = False
    cache._arrivals.expected = cache._expected = Taken({OS: 1})
    cache._arrivals.over()
    assert cache.woken.acquire(blocking=False)
    cache.refresh()
    assert state_of(cache) is State.ERROR


def test_an_event_that_comes_while_others_are_taken_is_not_lost(zk_session: Session) -> None:
    """At each operation of Python the connection's thread may go on."""

    def taken(moment: int) -> bool:
        arrivals, left = Arrivals(zk_session, lambda: None, ahead=True), moment
        arrivals.add("first", alone=False)
        arrivals.begin()

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if frame.f_code is not Arrivals.take.__code__:
                return None
            frame.f_trace_opcodes = True
            left -= event == "opcode"
            if left == 0 and event == "opcode":
                arrivals.add("second", alone=False)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            found = arrivals.take()
        finally:
            sys.settrace(before)
        came = left <= 0
        assert sorted(found + arrivals.take()) == ["first", *(["second"] if came else [])]
        return came

    assert sum(map(taken, range(1, 200))) > 20


def test_more_events_than_a_read_has_paths_are_left_to_the_cache(zk_session: Session) -> None:
    cache = loaded(zk_session, "os")
    sent = requests(zk_session)
    for _ in range(BATCH + 1):
        cache._arrivals.add(OS, alone=False)
    cache._arrivals.over()
    assert cache.woken.acquire(blocking=False)
    zk_session.sync()
    assert requests(zk_session) == sent + 1, "the sync alone"


def test_nothing_is_read_ahead_while_the_cache_reads(zk_session: Session, other: Session) -> None:
    cache = loaded(zk_session, "os")
    cache._arrivals.begin()
    sent = requests(zk_session)
    set_state(other, State.ACTIVE, 0)
    zk_session.sync()
    assert requests(zk_session) == sent + 1, "the sync alone"
    assert not cache.woken.acquire(blocking=False)
    cache._arrivals.end(0)
    assert cache.woken.acquire(timeout=5)
    cache.refresh()
    assert state_of(cache) is State.ACTIVE


@pytest.mark.parametrize("read", ["stream", "get_many"])
def test_an_answer_from_before_a_read_of_the_cache_is_shown_before_it(
    zk_session: Session, other: Session, until: Any, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """``stream`` is called by a refresh, ``get_many`` by a sweep too."""
    cache = loaded(zk_session, "os")
    waiting, _ = held(zk_session)
    set_state(other, State.ERROR, 0)
    until(lambda: waiting)
    asked, then = getattr(zk_session, read), waiting.pop()

    def late(wanted: Sequence[str]) -> Any:
        found = list(asked(wanted))
        if wanted:
            then()  # it came before this answer
            monkeypatch.setattr(zk_session, read, asked)
        return found

    set_state(other, State.ACTIVE, 1)
    zk_session.sync()
    monkeypatch.setattr(zk_session, read, late)
    cache.sweep() if read == "get_many" else cache.refresh()
    cache.refresh()
    cache.refresh()
    assert state_of(cache) is State.ACTIVE


def test_the_structure_is_shown_behind_the_changes_that_were_read_ahead(zk_session: Session, other: Session) -> None:
    """A decision that rests on the structure has all changes before it: also those with a read that is under way."""
    cache = loaded(zk_session, "os")
    before = zk_session.get(paths.STRUCTURE)
    assert before is not None
    shown: list[tuple[str, State]] = []
    put = cache._tree.put

    def note(path: str, znode: Znode | None) -> None:
        put(path, znode)
        shown.append((path, state_of(cache)))

    cache._tree.put = note  # type: ignore[method-assign]
    set_state(other, State.ACTIVE, 0)
    other.commit([Set(paths.STRUCTURE, Structure(), before.version)])
    zk_session.sync()  # both events have come
    cache.refresh()
    assert (paths.STRUCTURE, State.ACTIVE) in shown
    assert (paths.STRUCTURE, State.TODO) not in shown


def test_a_gate_is_shown_behind_its_members_that_were_read_ahead(zk_session: Session, other: Session) -> None:
    gate = paths.gate("lab", "os")
    zk_session.commit([Create(paths.deployment("lab"), {}), Create(paths.clusters("lab")), Create(gate, Gate())])
    member = NodeRole.of(state=State.ACTIVE, since=1.0, deployment="lab", serves=("os",))
    cache = loaded(zk_session)
    zk_session.commit([Create(OS, member)])
    assert cache.woken.acquire(timeout=5)
    cache.refresh()
    other.commit([Set(OS, member.amended(state=State.BLOCKED), 0), Set(gate, Gate(by="os@n1"), 0)])
    zk_session.sync()
    cache.refresh()
    view = cache.world.cluster_view("os", "lab")
    assert (view.gate, state_of(cache)) == (1, State.BLOCKED)


def test_a_read_ahead_that_fails_is_made_good(zookeeper: Server, chroot: str, zk_session: Session, until: Any) -> None:
    up = threading.Event()
    with Proxy(zookeeper.port) as proxy:
        settings = ZooKeeperSettings(hosts=proxy.hosts + chroot)
        with Session(settings, on_connected=up.set) as session:
            cache = loaded(session, "os")
            waiting, send = held(session)
            set_state(zk_session, State.ERROR, 0)
            until(lambda: waiting)
            up.clear()
            proxy.cut()
            proxy.heal()
            assert up.wait(10)
            waiting.pop()()
            session.send_read = send  # type: ignore[method-assign]
            cache.refresh()
            assert picture(cache.world) == picture(load_world(zk_session))


def test_changes_in_a_rest_that_ended_before_the_wait_wake_at_once(zk_session: Session, other: Session) -> None:
    cache = loaded(zk_session, "os")
    cache._arrivals._rest_until = time.monotonic() + 0.2
    set_state(other, State.ERROR, 0)
    zk_session.sync()
    assert not cache.woken.acquire(timeout=0.3), "a rest wakes no thread"
    assert cache.rest_seconds == 0.0
    assert cache.woken.acquire(timeout=5)
    cache.refresh()
    assert state_of(cache) is State.ERROR


def test_where_others_write_much_the_cache_rests_and_reads_all_at_once(zk_session: Session, other: Session) -> None:
    roles = [f"r{number}" for number in range(60)]
    cache = loaded(zk_session, *roles)
    other.commit([Set(paths.noderole(each, "n1"), NodeRole(state=State.ACTIVE, since=2.0), 0) for each in roles])
    zk_session.sync()
    deadline = time.monotonic() + 5
    while state_of(cache, "r59@n1") is not State.ACTIVE and time.monotonic() < deadline:
        cache.woken.acquire(timeout=cache.rest_seconds or 5)
        cache.refresh()
    assert cache._arrivals._rest_until
    cache._arrivals._rest_until = time.monotonic() + 60.0  # a test may be late
    assert 0.0 < cache.rest_seconds <= 60.0
    while cache.woken.acquire(blocking=False):
        pass
    sent = requests(zk_session)
    for each in roles[:5]:
        set_state(other, State.ERROR, 1, paths.noderole(each, "n1"))
    zk_session.sync()
    assert not cache.woken.acquire(blocking=False)
    assert not cache.refresh()
    cache._arrivals._rest_until = 0.0
    assert {vertex.name for vertex in cache.refresh().vertices} == {f"{each}@n1" for each in roles[:5]}
    assert requests(zk_session) == sent + 2, "the sync, and one read"


def test_a_cache_that_reads_ahead_equals_a_fresh_read_after_any_order_of_writes(
    zk_session: Session, other: Session, until: Any
) -> None:
    source, roles = random.Random(7), [f"r{number}" for number in range(8)]
    cache = loaded(zk_session, *roles)
    versions = dict.fromkeys(roles, 0)
    for _ in range(150):
        role = source.choice(roles)
        change = Set(paths.noderole(role, "n1"), NodeRole(state=source.choice(list(State)), since=1.0), versions[role])
        versions[role] += 1
        if source.random() < 0.5:
            cache.expect([change])
            stats = zk_session.commit([change])
            if source.random() < 0.3:
                other.commit([Set(change.path, NodeRole(state=State.TODO, since=3.0), versions[role])])
                versions[role] += 1
            cache.committed([change], stats)
        else:
            other.commit([change])
        if source.random() < 0.3:
            cache.refresh()
    fresh = picture(load_world(other))

    def equal() -> bool:
        cache.refresh()
        return picture(cache.world) == fresh

    until(equal)
