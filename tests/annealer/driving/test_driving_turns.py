"""The turns of a driver: when it drives, when it looks again, and what it writes and lets go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Invalid, OcbError, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Daemon,
    Deployment,
    LockOwner,
    Pointer,
    RolloutPointer,
    Set,
    State,
)
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.locks import holders
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.driving import drivers as driving
from nodepool_ocb_annealer.driving.drivers import Drivers
from nodepool_ocb_annealer.driving.work import DrivingStep
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.driving.staged_work import ID, LAB, ME, POINTER, Annealer, Execution, Executions
from tests.engine.worlds import put, world

TIMER = Timer(TimerKind.ROLLOUT, LAB)
LOCK = f"{POINTER}/{ID}/lock"

NOW = 1000.0  # of the clock that stands still


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time stands still: no wait depends on the load of the machine."""
    monkeypatch.setattr(driving, "time", SimpleNamespace(monotonic=lambda: NOW, time=time.time))


class Work(Executions):
    """Each move is the next of ``moves``, or nothing."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.moves: list[Callable[[Execution], DrivingStep[Execution]]] = []
        self.counted: list[int] = []
        self.written, self.concerned, self.seconds = 0, False, 0.0
        self.own: frozenset[str] = frozenset({"n1"})
        self.is_over = False

    def concerns(self, _touched: ChangeSet) -> bool:
        return self.concerned

    def read(self, deployment: str, identity: str) -> Execution:
        return replace(super().read(deployment, identity), over=self.is_over)

    def move(
        self, _world: World, driven: Execution, _now: float, _quarantined: Iterable[str]
    ) -> DrivingStep[Execution]:
        return self.moves.pop(0)(driven) if self.moves else DrivingStep([], driven)

    def nodes(self, _driven: Execution) -> frozenset[str]:
        return self.own

    def count(self, driven: int) -> None:
        self.counted.append(driven)

    def took(self, seconds: float) -> None:
        self.seconds += seconds

    def wrote(self) -> None:
        self.written += 1


class Desk(Annealer):
    """An annealer whose transactions wait for their answers."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.answers: list[Callable[[OcbError | None], None]] = []
        self.about: list[str] = []
        self.work = Work(session)
        self.drivers = Drivers(self, self.work)  # type: ignore[arg-type]

    def send(self, changes: list[Change], then: Callable[[Any], None], about: str) -> None:
        super().send(changes, then, about)
        self.answers.append(then)
        self.about.append(about)

    def commit(self) -> None:
        """What was sent last is written."""
        try:
            self.session.commit(self.sent[-1])
        except OcbError as refused:
            self.answers.pop()(refused)
        else:
            self.answers.pop()(None)

    def waits(self) -> float | None:
        """Until the timer of the deployment, in seconds; it is set no more."""
        now = NOW
        found = [when - now for when, _, key in self.timers._heap if key == TIMER]
        list(self.timers.due(float("inf")))
        return max(min(found), 0.0) if found else None

    def due(self, *moves: Callable[[Execution], DrivingStep[Execution]]) -> None:
        """A turn, without the pause that would precede it."""
        self.work.moves += moves
        for drive in self.drivers._driven.values():
            drive.not_before = 0.0
        self.waits()
        self.drivers.due(LAB)

    @property
    def pointer(self) -> Pointer:
        return pointers.read(self.session, POINTER, RolloutPointer)[0]

    def point(self, **fields: Any) -> None:
        known, version = pointers.read(self.session, POINTER, RolloutPointer)
        self.session.commit([Set(POINTER, replace(known, **fields), version)])


@pytest.fixture
def desk(session: Session) -> Desk:
    return Desk(session)


@pytest.fixture
def driving_desk(desk: Desk) -> Desk:
    desk.due()
    assert len(desk.drivers) == 1
    return desk


def writes(driven: Execution) -> DrivingStep[Execution]:
    after = replace(driven, pointer=replace(driven.pointer, since=5.0), version=driven.version + 1)
    return DrivingStep([Set(POINTER, after.pointer, driven.version)], after, lines=[(logging.INFO, "it moved")])


def quiet(driven: Execution) -> DrivingStep[Execution]:
    return replace(writes(driven), quiet=True)


# -- to become its driver --


def test_an_annealer_takes_the_lock_and_the_pointer_and_goes_on_in_the_next_turn(desk: Desk) -> None:
    before = desk.session.now()
    desk.due()
    assert (len(desk.drivers), desk.work.counted, desk.waits()) == (1, [1], 0.0)
    assert desk.pointer.driver == ME
    assert desk.pointer.since >= before
    (holder,) = holders(desk.session, [LOCK])
    assert holder is not None
    assert holder == LockOwner(
        daemon=ME, host="h", pid=1, purpose=f"rollout {ID} of deployment {LAB}", since=holder.since
    )
    assert holder.since >= before
    assert desk.sent == []


def annealers(desk: Desk, driver: str, **fields: Any) -> None:
    record = Daemon(**{"host": "h", "pid": 1, "version": "0", "started": 0.0, **fields})
    desk.world.put(Stored(record, 0), "annealer", driver)
    desk.point(driver=driver)


@pytest.mark.parametrize(
    ("driver", "fields", "taken"),
    [("b", {}, False), ("b", {"state": "draining"}, True), (ME, {}, True), ("gone", None, True)],
)
def test_an_execution_that_another_annealer_drives_is_left_to_it(
    desk: Desk, driver: str, fields: dict[str, Any] | None, taken: bool
) -> None:
    if fields is None:
        desk.point(driver=driver)
    else:
        annealers(desk, driver, **fields)
    desk.due()
    assert (len(desk.drivers) == 1) is taken


def test_an_annealer_of_a_lower_rank_waits_and_begins_anew_where_another_drove_meanwhile(desk: Desk) -> None:
    subjects: list[str] = []
    desk.ranking.of = lambda subject: subjects.append(subject) or 2
    desk.due()
    delay = 2 * desk.settings.steal_delay_seconds
    assert (len(desk.drivers), subjects) == (0, [f"rollout {LAB}"])
    wait = desk.waits()
    assert wait is not None
    assert delay - 1.0 < wait <= delay
    desk.drivers._free_since[LAB] = NOW - delay - 1.0
    annealers(desk, "b")
    desk.due()
    assert desk.drivers._free_since == {}
    desk.point(driver=None)
    desk.due()
    assert len(desk.drivers) == 0
    desk.drivers._free_since[LAB] = NOW - delay - 1.0
    desk.due()
    assert (len(desk.drivers), desk.drivers._free_since) == (1, {})


def test_an_execution_that_is_over_is_not_driven(desk: Desk) -> None:
    desk.point(over=True)
    desk.due()
    assert (len(desk.drivers), desk.pointer.driver) == (0, None)


def test_a_pointer_that_does_not_say_that_its_execution_is_over_is_closed(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.work.is_over = True
    with caplog.at_level(logging.WARNING, driving.log.name):
        desk.due()
    assert (len(desk.drivers), desk.pointer.over, desk.pointer.driver) == (0, True, None)
    assert [each.getMessage() for each in caplog.records] == [
        "rollout lab/1 is over, and its pointer said that it is not: closed"
    ]
    assert desk.drivers._free_since == {}


def test_a_lock_that_another_process_holds_is_tried_again(desk: Desk, zk_session: Session) -> None:
    zk_session.ensure(LOCK)
    made = zk_session.create_next(f"{LOCK}/x__lock__", LockOwner(daemon="b", host="h", pid=2, purpose="", since=1.0))
    desk.due()
    assert (len(desk.drivers), desk.pointer.driver) == (0, None)
    wait = desk.waits()
    assert wait is not None
    assert 0.0 < wait <= driving.AGAIN_SECONDS
    zk_session._client.delete(made)
    desk.due()
    assert len(desk.drivers) == 1


def test_a_pointer_that_another_wrote_meanwhile_is_left_and_its_lock_is_free(desk: Desk) -> None:
    stored = desk.work.pointers(desk.world)
    desk.point(since=3.0)
    desk.work.pointers = lambda _: stored  # type: ignore[method-assign]
    desk.due()
    assert (len(desk.drivers), desk.session.children(LOCK)) == (0, [])
    wait = desk.waits()
    assert wait is not None
    assert 0.0 < wait <= driving.AGAIN_SECONDS


@pytest.mark.parametrize("case", ["resting", "unreadable", "distrusted", "no identity"])
def test_an_annealer_that_may_not_drive_takes_nothing(desk: Desk, case: str) -> None:
    if case == "resting":
        desk.resting = True
    elif case == "unreadable":
        desk.world.unreadable[POINTER] = "a later version"
    elif case == "no identity":
        desk.point(newest=None)
    else:
        desk.session = SimpleNamespace(trusted=False)  # type: ignore[assignment]
    desk.due()
    assert len(desk.drivers) == 0
    assert (desk.waits() is not None) is (case == "distrusted")


# -- to drive --


def test_what_a_move_wants_is_written_and_the_next_follows_after_a_pause(
    driving_desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk = driving_desk
    desk.due(writes)
    assert (desk.about, len(desk.sent)) == (["rollout lab/1"], 1)
    desk.drivers.due(LAB)
    assert (len(desk.sent), desk.waits()) == (1, None), "the answer sets the next timer"
    desk.work.own = frozenset({"n2"})
    with caplog.at_level(logging.INFO, driving.log.name):
        desk.commit()
    assert [each.getMessage() for each in caplog.records] == ["rollout lab/1: it moved"]
    assert (desk.work.written, desk.pointer.since) == (1, 5.0)
    drive = desk.drivers._driven[LAB]
    assert (drive.nodes, drive.driven.pointer.since, drive.writing) == (frozenset({"n2"}), 5.0, False)
    wait = desk.waits()
    assert wait is not None
    assert wait <= driving.PAUSE_SECONDS
    desk.due(writes)
    assert len(desk.sent) == 2, "it needs no look at what it wrote itself"


def test_a_move_without_a_change_writes_nothing_and_may_set_a_timer(driving_desk: Desk) -> None:
    desk = driving_desk
    at = desk.session.now() + 40.0
    desk.due(lambda driven: DrivingStep([], driven, due=at))
    wait = desk.waits()
    assert desk.sent == []
    assert wait is not None
    assert 35.0 < wait <= 40.0
    desk.due(lambda driven: DrivingStep([], driven, due=at - 90.0))
    assert desk.waits() == 0.0
    desk.due()
    assert desk.waits() is None


def test_a_move_before_its_pause_is_over_waits_for_it(driving_desk: Desk) -> None:
    desk = driving_desk
    desk.due()
    drive = desk.drivers._driven[LAB]
    drive.not_before = NOW + 9.0
    desk.work.moves = [writes]
    desk.drivers.due(LAB)
    assert desk.sent == []
    wait = desk.waits()
    assert wait is not None
    assert 8.0 < wait <= 9.0


def test_what_matters_to_nobody_is_written_after_a_while(driving_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = driving_desk
    desk.due(quiet)
    wait = desk.waits()
    assert desk.sent == []
    assert wait is not None
    assert driving.QUIET_SECONDS - 1.0 < wait <= driving.QUIET_SECONDS
    first = desk.drivers._driven[LAB].quiet_since
    desk.due(quiet)
    assert desk.drivers._driven[LAB].quiet_since == first
    monkeypatch.setattr(driving, "QUIET_SECONDS", 0.0)
    desk.due(quiet)
    assert (len(desk.sent), desk.drivers._driven[LAB].quiet_since) == (1, None)


@pytest.mark.parametrize(
    ("refused", "reread"),
    [
        (Stale("it moved on", POINTER), True),
        (Stale("it moved on", paths.noderole("a", "n1")), False),
        (Unavailable("no connection"), True),
    ],
)
def test_a_move_that_is_refused_is_decided_again_later_and_later(
    driving_desk: Desk, refused: OcbError, reread: bool
) -> None:
    desk = driving_desk
    waits = []
    for _ in range(3):
        desk.due(writes, writes)
        if desk.answers:
            desk.answers.pop()(refused)
        assert desk.drivers._driven[LAB].reread is reread
        waits.append(desk.waits() or 0.0)
        desk.drivers._driven[LAB].reread = False
    assert waits[0] < waits[1] < waits[2] <= 8 * driving.PAUSE_SECONDS


def test_a_move_that_no_record_can_hold_is_told_once_and_tried_rarely(
    driving_desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk = driving_desk
    with caplog.at_level(logging.ERROR, driving.log.name):
        for _ in range(2):
            desk.due(writes)
            desk.answers.pop()(Invalid("it is too large"))
            wait = desk.waits()
            assert wait is not None
            assert driving.BROKEN_SECONDS - 1.0 < wait <= driving.BROKEN_SECONDS
            desk.drivers._driven[LAB].reread = False
    assert [each.getMessage() for each in caplog.records] == ["the rollout of deployment lab: it is too large"]


def test_a_driver_reads_foreign_writes_before_it_continues(driving_desk: Desk) -> None:
    desk = driving_desk
    desk.point(since=9.0)
    desk.due(writes)
    drive = desk.drivers._driven[LAB]
    assert (desk.sent, drive.driven.pointer.since, desk.waits()) == ([], 9.0, 0.0)
    drive.reread = True
    desk.work.own = frozenset({"n3"})
    desk.drivers.due(LAB)
    assert (desk.sent, drive.reread, drive.nodes) == ([], False, frozenset({"n3"}))


@pytest.mark.parametrize("change", [{"driver": "b"}, {"newest": "0000000002"}])
def test_an_execution_that_is_another_s_by_now_is_left_with_its_lock(
    driving_desk: Desk, change: dict[str, Any]
) -> None:
    desk = driving_desk
    desk.point(**change)
    desk.work.read = lambda *_: Execution(*pointers.read(desk.session, POINTER, RolloutPointer))  # type: ignore[method-assign]
    desk.due()
    assert (len(desk.drivers), desk.session.children(LOCK), desk.waits()) == (0, [], 0.0)
    assert desk.work.counted == [1, 0]


@pytest.mark.parametrize("case", ["over", "gone"])
def test_an_execution_that_is_over_or_gone_is_left(driving_desk: Desk, case: str) -> None:
    desk = driving_desk
    if case == "gone":
        desk.work.pointers = lambda _: {}  # type: ignore[method-assign]
    else:
        drive = desk.drivers._driven[LAB]
        drive.driven = replace(drive.driven, over=True)
    desk.due(writes)
    assert (len(desk.drivers), desk.sent, desk.session.children(LOCK)) == (0, [], [])


# -- to let go --


def test_an_annealer_that_ends_hands_over_pointer_and_lock_in_one_transaction(driving_desk: Desk) -> None:
    desk = driving_desk
    desk.drivers.release()
    assert (len(desk.drivers), desk.about, desk.work.counted) == (0, ["rollout lab/1"], [1, 0])
    desk.commit()
    assert (desk.pointer.driver, desk.session.children(LOCK), len(desk.sent)) == (None, [], 1)


def test_an_annealer_that_ends_lets_the_lock_go_where_another_wrote_the_pointer(driving_desk: Desk) -> None:
    desk = driving_desk
    desk.drivers.release()
    desk.point(since=9.0)
    desk.commit()
    assert desk.about == ["rollout lab/1", "lock of rollout lab/1"]
    desk.commit()
    assert (desk.pointer.driver, desk.session.children(LOCK)) == (ME, [])


def test_a_session_that_is_over_drives_nothing_and_its_locks_go_later(driving_desk: Desk) -> None:
    desk = driving_desk
    desk.drivers._free_since["other"] = 1.0
    desk.drivers.void()
    assert (len(desk.drivers), desk.sent, desk.work.counted, desk.drivers._free_since) == (0, [], [1, 0], {})
    desk.drivers._locks.sweep()
    assert desk.session.children(LOCK) == []


@pytest.mark.parametrize(
    ("stored", "freed"),
    [
        (RolloutPointer(newest=ID, over=False, driver=ME), True),
        (RolloutPointer(newest=ID, over=False, driver="b"), False),
        (RolloutPointer(newest=ID, over=True, driver=ME), False),
        (None, False),
    ],
)
def test_an_annealer_that_fails_again_and_again_frees_the_pointer_that_names_it(
    desk: Desk, stored: RolloutPointer | None, freed: bool
) -> None:
    for number in range(driving.FAILURES):
        assert desk.sent == [], number
        desk.drivers._leave_alone(LAB, Stored(stored, 4) if stored is not None else None)
        wait = desk.waits()
        assert wait is not None
        last = number + 1 == driving.FAILURES
        seconds = driving.AWAY_SECONDS if last else driving.BROKEN_SECONDS
        assert seconds - 1.0 < wait <= seconds
    if not freed or stored is None:
        assert desk.sent == []
        return
    assert desk.about == [f"rollout of deployment {LAB}"]
    ((change,),) = desk.sent
    assert isinstance(change, Set)
    assert (change.path, change.version) == (POINTER, 4)
    assert isinstance(change.data, RolloutPointer)
    assert replace(change.data, since=0.0) == replace(stored, driver=None)


def test_one_that_failed_is_left_alone_for_a_while(desk: Desk) -> None:
    desk.drivers._broken_until[LAB] = NOW + 9.0
    desk.due()
    wait = desk.waits()
    assert len(desk.drivers) == 0
    assert wait is not None
    assert 8.0 < wait <= 9.0


def test_a_lost_connection_is_raised_and_tried_again(desk: Desk) -> None:
    def lost(*_: object) -> Execution:
        raise Unavailable("no connection")

    desk.work.read = lost  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        desk.due()
    wait = desk.waits()
    assert wait is not None
    assert 0.0 < wait <= driving.AGAIN_SECONDS
    assert desk.drivers._failures == {}


# -- what wakes --


def looked(desk: Desk, touched: ChangeSet) -> bool:
    desk.waits()
    desk.drivers.look(touched)
    return desk.waits() is not None


def test_a_driver_looks_again_where_what_changed_may_move_it(driving_desk: Desk) -> None:
    desk = driving_desk
    made = world()
    failed, active = put(made, "a@n9", State.ERROR), put(made, "b@n9", State.ACTIVE)
    assert not looked(desk, ChangeSet())
    assert not looked(desk, ChangeSet(nodes={"n9"}, vertices={active}))
    assert looked(desk, ChangeSet(nodes={"n1"}))
    assert looked(desk, ChangeSet(vertices={failed}))
    assert looked(desk, ChangeSet(kinds={Deployment}))
    assert looked(desk, ChangeSet(kinds={Daemon}))
    desk.work.concerned = True
    assert looked(desk, ChangeSet())


def test_all_that_is_under_way_or_driven_here_is_looked_at(desk: Desk) -> None:
    assert not looked(desk, ChangeSet(nodes={"n1"}))
    assert looked(desk, ChangeSet(kinds={Daemon}))
    desk.point(over=True)
    assert not looked(desk, ChangeSet(kinds={Daemon}))
    desk.point(over=False)
    desk.due()
    desk.point(over=True)
    assert looked(desk, ChangeSet(kinds={Daemon}))


def test_what_is_looked_at_keeps_its_pause(driving_desk: Desk) -> None:
    desk = driving_desk
    desk.drivers._driven[LAB].not_before = NOW + 9.0
    desk.waits()
    desk.drivers.look(ChangeSet(nodes={"n1"}))
    wait = desk.waits()
    assert wait is not None
    assert 8.0 < wait <= 9.0
