"""Calls that are posted to the turn thread: one that raises costs no other, and a broken connection is no failure."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from nodepool_ocb.daemon.inbox import Inbox
from nodepool_ocb.errors import OutcomeUnknown, Unavailable
from nodepool_ocb.telemetry import metrics


def failures() -> float:
    return float(metrics.TURN_FAILURES._value.get())


def raising(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def taken(*calls: Callable[[], None], inbox: Inbox | None = None) -> Inbox:
    inbox = inbox or Inbox(lambda: None)
    for call in calls:
        inbox.post(call)
    inbox.take()
    return inbox


def test_a_broken_connection_is_one_warning_and_counts_as_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    before = failures()
    gone = raising(Unavailable("no connection to ZooKeeper at zk:2181"))
    inbox = taken(gone, raising(OutcomeUnknown("the connection broke")), gone)
    taken(gone, inbox=inbox)
    assert [(each.levelno, each.exc_info) for each in caplog.records] == [(logging.WARNING, None)]
    assert "no connection to ZooKeeper at zk:2181" in caplog.text
    assert failures() == before
    taken(lambda: None, gone, inbox=inbox)
    assert len(caplog.records) == 2, "the connection was there meanwhile"


def test_a_call_that_raises_is_an_error_and_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    before, made = failures(), list[int]()
    taken(raising(RuntimeError("a fault")), lambda: made.append(1))
    assert made == [1]
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
    assert failures() == before + 1
