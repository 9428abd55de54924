"""The guards of a driver, each on its own: an annealer that lost a lock or a pointer writes nothing of that execution."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.model.records import Change, LockOwner, RolloutPointer, Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb_annealer.driving import drivers as driving
from nodepool_ocb_annealer.driving.drivers import Drivers
from nodepool_ocb_annealer.driving.work import DrivingStep
from tests.annealer.driving.staged_work import ID, LAB, ME, POINTER, Annealer, Execution, Executions
from tests.annealer.webhook.posters import Poster


def test_a_driver_writes_while_it_holds_its_lock(session: Session) -> None:
    annealer = Annealer(session)
    drivers = Drivers(annealer, Executions(session))
    drivers.due(LAB)
    drivers.due(LAB)
    assert [change.path for changes in annealer.sent for change in changes] == [POINTER]


def test_a_driver_with_a_lock_of_an_older_session_writes_nothing(session: Session, zk_session: Session) -> None:
    annealer = Annealer(session)
    drivers = Drivers(annealer, Executions(session))
    drivers.due(LAB)
    assert len(drivers) == 1
    annealer.session = zk_session
    drivers.due(LAB)
    assert annealer.sent == []
    assert len(drivers) == 0


def test_a_driver_leaves_a_pointer_that_another_annealer_took_before_it_could_read(
    session: Session, zk_session: Session
) -> None:
    def another_takes_over() -> None:
        pointer, version = pointers.read(zk_session, POINTER, RolloutPointer)
        assert pointer.driver == ME
        zk_session.commit([Set(POINTER, RolloutPointer(newest=ID, over=False, driver="annealer-2"), version)])

    class Late(Executions):
        def read(self, _deployment: str, _identity: str) -> Execution:
            if pointers.read(zk_session, POINTER, RolloutPointer)[0].driver == ME:
                another_takes_over()
            return super().read(_deployment, _identity)

    annealer = Annealer(session)
    drivers = Drivers(annealer, Late(session))
    drivers.due(LAB)
    assert len(drivers) == 0
    assert session.children(f"{POINTER}/{ID}/lock") == []


class Failing(Executions):
    """An annealer whose host has no descriptors left: it can drive nothing."""

    def __init__(self, session: Session, step: str) -> None:
        super().__init__(session)
        self._step = step

    def read(self, deployment: str, identity: str) -> Execution:
        found = super().read(deployment, identity)
        if self._step == "read" and found.pointer.driver == ME:
            raise OSError(errno.EMFILE, "Too many open files")
        return found

    def move(
        self, _world: World, _driven: Execution, _now: float, _quarantined: Iterable[str]
    ) -> DrivingStep[Execution]:
        raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("step", ["read", "move"])
def test_a_driver_whose_host_is_at_fault_lets_another_annealer_drive(
    session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(driving, "BROKEN_SECONDS", 0.0)
    annealer = Annealer(session)
    broken = Drivers(annealer, Failing(session, step))
    attempts = 0
    while not annealer.sent and attempts < 2 * driving.FAILURES:
        broken.due(LAB)
        attempts += 1
    assert attempts >= driving.FAILURES
    assert len(broken) == 0
    for changes in annealer.sent:
        session.commit(changes)
    pointer, _ = pointers.read(session, POINTER, RolloutPointer)
    assert (pointer.driver, session.children(f"{POINTER}/{ID}/lock")) == (None, [])
    broken.due(LAB)
    assert pointers.read(session, POINTER, RolloutPointer)[0].driver is None, "it leaves that to others for a while"
    with Session(zk_settings) as healthy_session:
        other = Annealer(healthy_session)
        other.identity = "annealer-2"
        healthy = Drivers(other, Executions(healthy_session))
        healthy.due(LAB)
        healthy.due(LAB)
        assert [change.path for changes in other.sent for change in changes] == [POINTER]


@pytest.mark.parametrize("refused", [Stale("another wrote"), Unavailable("the connection broke")])
def test_a_lock_that_could_not_be_released_goes_with_a_sweep(session: Session, refused: OcbError) -> None:
    class Refused(Annealer):
        def send(self, changes: list[Change], then: Callable[[Any], None], about: str) -> None:
            super().send(changes, then, about)
            then(refused)

    annealer = Refused(session)
    drivers = Drivers(annealer, Executions(session))
    drivers.due(LAB)
    assert len(session.children(f"{POINTER}/{ID}/lock") or ()) == 1
    drivers.release()
    assert [len(changes) for changes in annealer.sent] == [2, 1], "the hand-over, and the lock alone"
    drivers.sweep()
    assert session.children(f"{POINTER}/{ID}/lock") == []


def test_failures_that_end_before_that_are_not_counted_together(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "BROKEN_SECONDS", 0.0)
    monkeypatch.setattr(driving, "PAUSE_SECONDS", 0.0)
    annealer, outcomes = Annealer(session), [True, True, True, True, False] * 3

    class Sometimes(Executions):
        def move(
            self, _world: World, driven: Execution, _now: float, _quarantined: Iterable[str]
        ) -> DrivingStep[Execution]:
            if outcomes.pop(0):
                raise OSError(errno.EMFILE, "Too many open files")
            return DrivingStep([], driven)

    drivers = Drivers(annealer, Sometimes(session))
    drivers.due(LAB)
    while outcomes:
        drivers.due(LAB)
    assert (len(drivers), annealer.sent) == (1, [])


def test_a_sweep_of_an_annealer_sweeps_the_locks_of_its_drivers(
    session: Session, zk_settings: ZooKeeperSettings
) -> None:
    me = LockOwner(daemon="a1", host="h", pid=1, purpose="a test", since=1.0)
    with Poster(zk_settings, "a1", None) as poster:
        for drivers in (poster.annealer.rolling, poster.annealer.tasks):
            lock = drivers._locks.take(f"{POINTER}/{ID}/lock", me)
            assert lock is not None
            drivers._locks.leave(lock)
            poster.have_swept()
            assert session.children(f"{POINTER}/{ID}/lock") == []
