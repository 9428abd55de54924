"""Threads that do work: what ends badly is over nonetheless, and may be begun again."""

from __future__ import annotations

import logging
import threading

import pytest

from nodepool_ocb.daemon.backoff import LONGEST_SECONDS, Backoff
from nodepool_ocb.daemon.workers import WorkerPool
from nodepool_ocb.errors import Stale


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


def test_somebody_faster_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
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
