"""The checks before a hand-out: the wait of a turn and the warnings have bounds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodepool_ocb.providers.machines import LaunchParty, MachineRefused
from nodepool_ocb_launcher import liveness
from nodepool_ocb_launcher.liveness import SlotChecks
from tests.pool.poolworld import node


def checks(answer: Callable[[], MachineRefused | None], wake: Callable[[], None] = lambda: None) -> SlotChecks:
    """The checks of a launcher with a provider that lends, and that answers so."""
    calls = SimpleNamespace(lends=True, check=lambda _id, _keys: answer())
    context = SimpleNamespace(providers={"cloud": calls}, halt=threading.Event())
    return SlotChecks(cast(Any, context), wake)


def test_a_turn_waits_for_many_slow_machines_no_longer_than_for_some() -> None:
    end = threading.Event()

    def answer() -> None:
        end.wait(10)

    slow = checks(answer)
    began = time.monotonic()
    for number in range(60):
        assert slow.refusals([node(str(number), "small")]) is None
    assert time.monotonic() - began < 2.0
    end.set()
    time.sleep(0.1)
    slow.begin_turn()
    assert slow.refusals([node("0", "small")]) == {}


def test_the_next_turn_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "QUICK_SECONDS", 5.0)
    monkeypatch.setattr(liveness, "TURN_SECONDS", 5.0)
    found = checks(lambda: time.sleep(0.05))
    found._left = 0.0
    found.begin_turn()
    assert found.refusals([node("7", "small")]) == {}


def test_a_fault_of_this_host_is_logged_one_time_for_many_nodes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(liveness, "QUICK_SECONDS", 5.0)
    broken = checks(lambda: MachineRefused("the key cannot be read", LaunchParty.HOST))
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            broken.begin_turn()
            assert broken.refusals([node(str(number), "small")]) is None
    assert [each.getMessage() for each in caplog.records] == [
        "node 0000000000 is not handed out now: the key cannot be read"
    ]


def test_an_answer_wakes_the_turn_only_if_the_turn_did_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "TURN_SECONDS", 20.0)
    end, woken = threading.Event(), threading.Event()

    def answer() -> None:
        end.wait(10)

    slow = checks(answer, woken.set)
    slow.begin_turn()
    assert slow.refusals([node("7", "small")]) is None
    assert not woken.is_set()
    end.set()
    assert woken.wait(10), "the answer came after the wait"
    woken.clear()
    monkeypatch.setattr(liveness, "QUICK_SECONDS", 10.0)
    assert slow.refusals([node("8", "small")]) == {}
    assert not woken.is_set()
