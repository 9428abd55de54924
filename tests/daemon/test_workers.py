"""Threads that do work: what ends badly is over nonetheless, and may be begun again."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial

import pytest

from nodepool_ocb.daemon.backoff import LONGEST_SECONDS, Backoff
from nodepool_ocb.daemon.workers import WorkerPool, WorkerQueue
from nodepool_ocb.errors import Stale

PATIENCE_SECONDS = 60.0


def test_work_for_which_there_is_no_thread_can_be_begun_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, done = WorkerPool("test", 1, lambda: None), threading.Event()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", full)
        assert not pool.start("work", done.set)
    assert pool.start("work", done.set)
    assert done.wait(5.0)
    assert pool.wait(5.0)


def test_an_answer_comes_to_the_thread_that_takes_what_is_posted_in_the_order_of_the_questions() -> None:
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    workers, answers = WorkerQueue("test", 1, posted.put), list[tuple[str, int]]()
    for name in ("first", "second"):
        workers.ask(partial(str.upper, name), lambda answer: answers.append((answer, threading.get_ident())))
    for _ in range(2):
        posted.get(timeout=PATIENCE_SECONDS)()
    workers.close()
    assert answers == [("FIRST", threading.get_ident()), ("SECOND", threading.get_ident())]


def test_what_there_is_no_thread_for_is_refused_and_not_done_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    workers, answers = WorkerQueue("test", 1, posted.put), list[int]()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", full)
        assert not workers.ask(lambda: 1, answers.append)
    assert workers.ask(lambda: 2, answers.append)
    posted.get(timeout=PATIENCE_SECONDS)()
    workers.close()
    assert answers == [2]
    assert posted.empty()


def test_work_that_raises_what_nobody_expected_is_logged_and_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    workers, answers = WorkerQueue("test", 1, posted.put), list[int]()
    workers.ask(lambda: {}["no luck"], answers.append)
    workers.ask(lambda: 2, answers.append)
    posted.get(timeout=PATIENCE_SECONDS)()
    workers.close()
    assert answers == [2]
    assert "test_0 failed" in caplog.text


def test_losing_a_race_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    def late() -> None:
        raise Stale("/x was changed meanwhile")

    pool = WorkerPool("test", 1, lambda: None)
    with caplog.at_level(logging.INFO):
        pool.start("work", late)
        assert pool.wait(5.0)
    assert [record.levelno for record in caplog.records] == [logging.INFO]


def test_what_does_not_help_is_waited_for_longer_and_longer() -> None:
    patience, waits = Backoff(), []
    for _ in range(12):
        patience.begin("step", LONGEST_SECONDS)
        patience.begin("work")
        waits.append(round(patience.left("step")))
        assert patience.left("work") <= 1.0
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
