"""What a session tells of: a watch of what is at its path or below, and the end of the session once it is sure."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Create
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
