"""Whether the daemons of this host are paused: read when its watch says so, and after each reconnect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.daemon.pausing import Pausing
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Create, Daemon, DaemonPause, Delete, Set
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store.client.session import Session

PATH = paths.daemon_pause("annealer", "host1")
PAUSE = Maintenance(by="ann", reason="upgrade", since=1.0)
Until = Callable[..., None]


class Counted:
    """A session whose connections are counted by the test, and which may be cut once."""

    def __init__(self, session: Session) -> None:
        self._session, self.connections, self.cut = session, 1, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get(self, path: str) -> Any:
        if self.cut:
            self.cut = False
            raise Unavailable("it is cut")
        return self._session.get(path)


class Daemons:
    """The pausing of one, and whether it was woken."""

    def __init__(self, session: Session) -> None:
        self.woken, self.session = threading.Event(), Counted(session)
        record = Daemon(host="host1", pid=1, version="1", started=1.0)
        registration = Registration(session, ClientKind.ANNEALER, "host1-1-2", record)
        self.pausing = Pausing(self.session, ClientKind.ANNEALER, registration, self.woken.set)  # type: ignore[arg-type]
        session.ensure(paths.daemon_pauses("annealer"))


@pytest.fixture
def daemons(zk_session: Session) -> Daemons:
    return Daemons(zk_session)


def test_a_pause_wakes_is_said_and_is_over_when_it_is_deleted(daemons: Daemons, zk_session: Session) -> None:
    daemons.pausing.load()
    assert not daemons.pausing.look()
    zk_session.commit([Create(PATH, DaemonPause(pause=PAUSE))])
    assert daemons.woken.wait(5.0)
    assert daemons.pausing.look()
    assert (daemons.pausing.paused, daemons.pausing.look()) == ("by ann: upgrade", False)
    daemons.woken.clear()
    zk_session.commit([Delete(PATH, 0)])
    assert daemons.woken.wait(5.0)
    assert daemons.pausing.look()
    assert daemons.pausing.paused is None


def test_another_reason_is_said_and_is_no_other_pause(daemons: Daemons, zk_session: Session) -> None:
    zk_session.commit([Create(PATH, DaemonPause(pause=PAUSE))])
    assert daemons.pausing.look()
    zk_session.commit([Set(PATH, DaemonPause(pause=replace(PAUSE, reason="disk")), 0)])
    daemons.session.connections += 1  # no watch was there to tell
    assert (daemons.pausing.look(), daemons.pausing.paused) == (False, "by ann: disk")


def test_what_could_not_be_read_is_read_at_the_next_look(daemons: Daemons, zk_session: Session) -> None:
    daemons.pausing.load()
    assert not daemons.pausing.look()
    zk_session.commit([Create(PATH, DaemonPause(pause=PAUSE))])
    assert daemons.woken.wait(5.0)
    daemons.session.cut = True
    with pytest.raises(Unavailable):
        daemons.pausing.look()
    assert daemons.pausing.look()


def test_a_pause_that_a_hand_spoiled_stays_what_it_was(daemons: Daemons, zk_session: Session) -> None:
    zk_session.commit([Create(PATH, DaemonPause(pause=PAUSE))])
    assert daemons.pausing.look()
    zk_session.commit([Set(PATH, ["spoiled"], 0)])
    daemons.session.connections += 1
    assert (daemons.pausing.look(), daemons.pausing.paused) == (False, "by ann: upgrade")


def test_its_time_ends_it_without_a_write(daemons: Daemons, zk_session: Session, until: Until) -> None:
    assert daemons.pausing.seconds == float("inf")
    end = zk_session.now() + 0.2
    zk_session.commit([Create(PATH, DaemonPause(pause=replace(PAUSE, until=end)))])
    assert daemons.pausing.look()
    assert 0.0 <= daemons.pausing.seconds <= 0.2
    until(lambda: daemons.pausing.look())
    assert zk_session.now() >= end
    assert (daemons.pausing.paused, daemons.pausing.seconds) == (None, float("inf"))
