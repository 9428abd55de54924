"""Threads that ask at the same time share a call; each gets the answer of a call that began after it asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from nodepool_ocb.providers.shared import SharedQuestions

SECONDS = 20.0


class Machine:
    """It answers the number of the call, when it is let go."""

    def __init__(self) -> None:
        self.calls = 0
        self.called = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def answer(self) -> int:
        self.calls += 1
        number = self.calls
        self.called.release()
        assert self.go.acquire(timeout=SECONDS)
        return number


def test_those_who_ask_during_a_call_share_the_next_one(until: Callable[..., None]) -> None:
    questions: SharedQuestions[str, int] = SharedQuestions()
    machine = Machine()
    with ThreadPoolExecutor(5) as threads:
        first = threads.submit(questions.ask, "m", machine.answer)
        assert machine.called.acquire(timeout=SECONDS)
        others: list[Future[int]] = [threads.submit(questions.ask, "m", machine.answer) for _ in range(4)]
        until(lambda: questions.askers("m") == 5)
        machine.go.release()
        assert first.result(SECONDS) == 1, "the call that was under way answers no later question"
        machine.go.release()
        assert {each.result(SECONDS) for each in others} == {2}
    assert machine.calls == 2
    assert questions.askers("m") == 0


def test_an_exception_of_a_shared_call_reaches_each_thread_and_the_next_call_is_another() -> None:
    questions: SharedQuestions[str, int] = SharedQuestions()

    def broken() -> int:
        raise OSError("no route")

    for _ in range(2):
        with pytest.raises(OSError, match="no route"):
            questions.ask("m", broken)
    assert questions.ask("m", lambda: 7) == 7


def test_questions_about_another_machine_do_not_wait() -> None:
    questions: SharedQuestions[str, int] = SharedQuestions()
    machine = Machine()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(questions.ask, "m", machine.answer)
        assert machine.called.acquire(timeout=SECONDS)
        assert questions.ask("other", lambda: 7) == 7
        machine.go.release()
        assert slow.result(SECONDS) == 1
