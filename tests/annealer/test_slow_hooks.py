"""A hook that takes long is told of."""

from __future__ import annotations

import logging
import time

import pytest

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb_annealer.hooks import calls

SLOWER = 1.5 * calls.SLOW_SECONDS


class Sleeps(Role):
    def on_todo(self, hooked: Hooked) -> None:
        hooked.set_system[hooked.subject] = {"slow": True}
        time.sleep(SLOWER)  # this is the hook's work, and nothing waits for it

    def on_active(self, hooked: Hooked) -> None: ...


def test_a_hook_that_takes_long_is_told_with_its_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "find", lambda name, _: Sleeps(name))
    with caplog.at_level(logging.WARNING):
        for hook in ("on_todo", "on_active"):
            assert calls.call("b", hook, Hooked("app@n", role="app")) is None
    (said,) = [record for record in caplog.records if record.name == calls.log.name and hook_of(record) == "on_todo"]
    words = said.getMessage()
    assert words.startswith("on_todo of role app for app@n took ")
    assert float(words.split(" took ")[1].split()[0]) >= 1000 * calls.SLOW_SECONDS


def hook_of(record: logging.LogRecord) -> str:
    return record.getMessage().split()[0]
