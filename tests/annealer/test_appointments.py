"""What an annealer does later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.model.records import Daemon
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.appointments import Matter


def test_every_matter_has_somebody_who_meets_it() -> None:
    session: Any = SimpleNamespace()
    annealer = Annealer(session, AnnealerSettings(), {}, None, "a", Daemon(host="h", pid=1, version="1", started=0.0))
    assert annealer.meetings.keys() == set(Matter)
    annealer.close()
