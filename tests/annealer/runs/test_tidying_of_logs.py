"""When old runs are tidied up: nothing that is surplus waits for a run that may never come."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb_annealer.runs.tidying import RUNS_KEPT, Tidying


class Context:
    """An annealer whose noderoles have no records of runs, and whose turn thread is the test."""

    def __init__(self, folder: Path) -> None:
        self.timers = Timers()
        self.settings = AnnealerSettings(log_dir=str(folder), log_keep=1)
        self.session: Any = SimpleNamespace(children_many=lambda places: [[] for _ in places])
        self.claims: Any = SimpleNamespace(runs=set)
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, call: Callable[[], None]) -> None:
        self._posted.put(call)

    def turn(self, tidying: Tidying) -> None:
        for _ in self.timers.due(time.monotonic()):
            tidying.due()
        while not self._posted.empty():
            self._posted.get()()


def logs(folder: Path) -> Sequence[Path]:
    return list(folder.rglob("*.log"))


def test_logs_are_looked_at_though_nothing_runs_after_a_look_that_came_too_early_for_them(tmp_path: Path) -> None:
    context = Context(tmp_path)
    tidying = Tidying(context, set)
    (tmp_path / "n1").mkdir()
    for number in range(3):
        (tmp_path / "n1" / f"role-{number:010d}-a.log").touch()
    tidying._look_at = time.monotonic() + 2.0  # as after a look that took long
    record = SimpleNamespace(generation=RUNS_KEPT + 1)
    grant: Any = SimpleNamespace(record=record, previous_epoch=None, vertex=SimpleNamespace(name="role@n1"))
    tidying.ended(grant, logs=True)
    deadline = time.monotonic() + 20.0
    while len(logs(tmp_path)) > 1:
        assert time.monotonic() < deadline, "what is surplus stays"
        context.turn(tidying)
        time.sleep(0.01)
    tidying.close()
