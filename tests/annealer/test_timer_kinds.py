"""The timers of an annealer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.model.records import Daemon
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.timer_kinds import TimerKind


def test_every_kind_of_timer_has_a_handler() -> None:
    session: Any = SimpleNamespace()
    annealer = Annealer(session, AnnealerSettings(), {}, None, "a", Daemon(host="h", pid=1, version="1", started=0.0))
    assert annealer.timer_handlers.keys() == set(TimerKind)
    annealer.close()
