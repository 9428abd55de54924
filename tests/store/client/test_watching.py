"""What a session tells of: a watch of what is at its path or below, and the end of the session once it is sure."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Create, Set
from nodepool_ocb.store.client.heart import OPINIONS, Beating
from nodepool_ocb.store.client.session import Session


def test_a_watch_tells_of_its_own_path_and_of_nothing_beside_it(zk_session: Session, until: Any) -> None:
    seen: dict[str, list[str]] = {"/ocb/a": [], "/ocb/a/b": []}
    zk_session.commit([Create("/ocb/a"), Create("/ocb/a/b")])
    for path, heard in seen.items():
        zk_session.watch(path, lambda _, at, heard=heard: heard.append(at))
    zk_session.commit([Create("/ocb/ab"), Create("/ocb/c"), Create("/ocb/a/c"), Create("/ocb/a/b/d")])
    zk_session.sync()
    until(lambda: len(seen["/ocb/a"]) == 2)
    assert seen == {"/ocb/a": ["/ocb/a/c", "/ocb/a/b/d"], "/ocb/a/b": ["/ocb/a/b/d"]}


def test_a_watch_of_some_levels_tells_of_no_deeper_path_until_all_concern_it(zk_session: Session, until: Any) -> None:
    shallow: list[str] = []
    deep: list[str] = []
    zk_session.commit(
        [Create("/ocb/a"), Create("/ocb/a/b"), Create("/ocb/a/b/c"), Create("/ocb/d"), Create("/ocb/d/e")]
    )
    zk_session.watch("/ocb/a", lambda _, at: shallow.append(at), levels=2)
    zk_session.commit([Create("/ocb/a/b/c/1"), Create("/ocb/a/b/1"), Set("/ocb/a", {}, 0)])
    until(lambda: len(shallow) == 2)
    zk_session.watch("/ocb/d", lambda _, at: deep.append(at))  # of all levels
    zk_session.commit([Create("/ocb/d/e/f"), Create("/ocb/a/b/c/2"), Create("/ocb/d/e/f/g"), Create("/ocb/a/b/2")])
    until(lambda: len(deep) == 2)
    zk_session.watch_all_levels("/ocb/a")
    zk_session.commit([Create("/ocb/a/b/c/3")])
    until(lambda: len(shallow) == 4)
    assert shallow == ["/ocb/a/b/1", "/ocb/a", "/ocb/a/b/2", "/ocb/a/b/c/3"]
    assert deep == ["/ocb/d/e/f", "/ocb/d/e/f/g"]


def test_a_later_watch_of_few_levels_hides_no_event_from_an_earlier_one(zk_session: Session, until: Any) -> None:
    seen: list[str] = []
    zk_session.commit([Create("/ocb/a"), Create("/ocb/a/b"), Create("/ocb/d")])
    zk_session.watch("/ocb/a", lambda _, at: seen.append(at))
    zk_session.watch("/ocb/d", lambda _, at: seen.append(at), levels=0)
    zk_session.commit([Create("/ocb/a/b/c"), Create("/ocb/d/e"), Set("/ocb/d", {}, 0)])
    until(lambda: "/ocb/d" in seen)
    assert seen == ["/ocb/a/b/c", "/ocb/d"]


def test_an_event_that_concerns_no_watcher_is_not_even_read(zk_session: Session, until: Any) -> None:
    seen: list[str] = []
    reported: list[str] = []
    zk_session.commit([Create("/ocb/a")])
    zk_session.watch("/ocb", lambda _, at: seen.append(at), levels=1)
    before = zk_session._client.wake_watchers
    zk_session._client.wake_watchers = lambda kind, at: (reported.append(at), before(kind, at))  # type: ignore[method-assign]
    zk_session.commit([Create("/ocb/a/b"), Create("/ocb/c")])
    until(lambda: seen == ["/ocb/c"])
    assert [each.rpartition("/")[2] for each in reported] == ["c"]


def test_a_watcher_that_is_not_to_be_called_behind_its_events_is_no_fault(
    zk_session: Session, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    zk_session.watch("/ocb", lambda _, at: seen.append(at))
    zk_session.commit([Create("/ocb/a")])
    zk_session.commit([Create("/ocb/b")])
    until(lambda: seen == ["/ocb/a", "/ocb/b"])
    assert not [record for record in caplog.records if record.exc_info]


def test_a_session_that_another_ends_is_told_as_lost_and_one_that_is_closed_is_not(
    zk_settings: ZooKeeperSettings, zk_session: Session
) -> None:
    assert zk_session.connected
    lost = threading.Event()
    session = Session(zk_settings, on_lost=lost.set)
    session.start()
    again = KazooClient(zk_settings.hosts, client_id=session._client.client_id)
    again.start()
    again.stop()
    again.close()
    assert lost.wait(30)
    lost.clear()
    session.close()
    session._listen("LOST")
    assert not lost.is_set()


def test_a_session_is_over_when_two_servers_say_so_or_the_only_one() -> None:
    states: list[str] = []
    client = SimpleNamespace(_session_callback=states.append)
    for addresses, opinions in ((3, OPINIONS), (1, 1)):
        beating: Any = SimpleNamespace(_expiries=[], addresses=addresses, logger=logging.getLogger("x"), client=client)
        for turn in range(2):
            for number in range(opinions):
                assert len(states) == turn
                Beating._session_expired(beating, ("h", "192.0.2.1", number))
        assert states == [KeeperState.EXPIRED_SESSION] * 2
        states.clear()
