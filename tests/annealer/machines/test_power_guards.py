"""The cases in which an annealer leaves a request for power alone, or an answer about one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.power import MachinePower, Powered, PowerStep
from nodepool_ocb.model.records import Set
from nodepool_ocb_annealer.machines.powering import Powering, StepEnded
from tests.annealer.machines.powerdesk import OURS, Desk, asked

N1 = "n1"


class Worker:
    """Keeps the works, and begins none."""

    def __init__(self, room: bool = True) -> None:
        self.room, self.answers = room, []  # type: tuple[bool, list[Callable[[StepEnded], None]]]

    def ask(self, _: Any, then: Callable[[StepEnded], None]) -> bool:
        if self.room:
            self.answers.append(then)
        return self.room

    def close(self) -> None: ...


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def powering(desk: Desk, worker: Worker) -> Iterator[Powering]:
    made = Powering(desk, SshSettings())  # type: ignore[arg-type]
    made._workers.close()
    made._workers = worker  # type: ignore[assignment]
    yield made
    made.close()


def begins(desk: Desk, powering: Powering, **own: Any) -> MachinePower:
    """A request, and its timer."""
    record = MachinePower(driver="manual", request=asked(1, **own))
    desk.put(N1, record)
    powering.look_at_all()
    return record


def test_a_request_that_is_being_taken_is_not_taken_twice(desk: Desk, powering: Powering) -> None:
    begins(desk, powering)
    desk.due(powering)
    powering.due(N1)
    assert len(desk.sent) == 1


def test_an_annealer_that_rests_takes_nothing(desk: Desk, powering: Powering) -> None:
    desk.resting = True
    begins(desk, powering)
    desk.due(powering)
    assert desk.sent == []


def test_a_record_that_cannot_be_read_now_is_left_alone(desk: Desk, powering: Powering) -> None:
    begins(desk, powering)
    desk.world.unreadable[paths.power(N1)] = "it is no JSON"  # type: ignore[index]
    desk.due(powering)
    assert desk.sent == []


def test_the_annealer_that_ranks_first_has_the_first_chance(desk: Desk, powering: Powering) -> None:
    desk.ranking.among([OURS, "b"])
    rack = next(f"r{number}" for number in range(99) if desk.ranking.of(f"rack r{number}") == 1)
    desk.put(N1, MachinePower(driver="manual", request=asked(1)), rack=rack)
    powering.look_at_all()
    desk.due(powering)
    assert desk.sent == []
    assert desk.timers.seconds(time.monotonic(), at_most=99.0) < 99.0, "it is looked at again"


def test_an_answer_of_a_former_session_writes_nothing(desk: Desk, powering: Powering, worker: Worker) -> None:
    begins(desk, powering, annealer=OURS, step=PowerStep.OFF)
    desk.due(powering)
    powering.void()
    powering.due(N1)
    assert len(worker.answers) == 2, "the step is done again"
    powering.void()
    worker.answers[0](StepEnded(Powered.OFF))
    assert desk.sent == []


def test_a_step_that_was_not_done_is_done_again(desk: Desk, powering: Powering, worker: Worker) -> None:
    begins(desk, powering, annealer=OURS, step=PowerStep.ROTATE)
    desk.due(powering)
    worker.answers[0](StepEnded(None))
    assert desk.sent == []
    assert desk.due(powering, 5.0) == 1
    assert len(worker.answers) == 2


def test_an_answer_about_a_request_that_changed_writes_nothing(desk: Desk, powering: Powering, worker: Worker) -> None:
    record = begins(desk, powering, annealer=OURS, step=PowerStep.OFF)
    desk.due(powering)
    assert record.request is not None
    desk.put(N1, replace(record, request=replace(record.request, step=PowerStep.ON)))
    worker.answers[0](StepEnded(Powered.OFF))
    assert desk.sent == []
    powering.due(N1)
    assert len(worker.answers) == 2, "the request as it is now goes on"


def test_the_end_of_a_step_is_written_once_with_the_state_and_the_fresh_password(
    desk: Desk, powering: Powering, worker: Worker
) -> None:
    former, fresh = {"$secret": "file:former"}, {"$secret": "file:fresh"}
    record = begins(desk, powering, annealer=OURS, step=PowerStep.ON)
    desk.put(N1, replace(record, password=former, fresh=fresh))
    desk.due(powering)
    worker.answers[0](StepEnded(Powered.ON, fresh=True))
    ((change, _),) = desk.sent
    assert isinstance(change, Set)
    written = change.data
    assert isinstance(written, MachinePower)
    assert (written.powered, written.password, written.fresh, written.request) == (Powered.ON, fresh, None, None)


def test_a_host_without_room_for_a_thread_tries_again(desk: Desk, powering: Powering, worker: Worker) -> None:
    worker.room = False
    begins(desk, powering, annealer=OURS, step=PowerStep.ON)
    desk.due(powering)
    worker.room = True
    assert desk.due(powering, within_seconds=6.0) == 1
    assert len(worker.answers) == 1
