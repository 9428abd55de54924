"""An annealer's context for its part that switches machines. It writes nothing: a test says that a write is done."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.power import MachinePower, PowerAction, PowerRequest
from nodepool_ocb.model.records import Daemon, Node
from nodepool_ocb_annealer.machines.powering import Powering
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

OURS = "a0"


class Desk:
    """The context of an annealer that writes nothing: the test tells it that a write was done, or refused."""

    def __init__(self) -> None:
        self.world, self.timers = World(), Timers[Timer]()
        self.settings, self.identity = AnnealerSettings(power_at_once=2, power_gap_seconds=5.0), OURS
        self.session: Any = SimpleNamespace(now=time.time, trusted=True)
        self.ranking, self.resting = Ranking(OURS), False
        self.ranking.among([OURS])
        self.annealer("b")
        self.secrets: Any = SimpleNamespace()
        self.sent: list[tuple[Any, Any]] = []

    def post(self, call: Any) -> None:
        call()

    def send(self, changes: Any, then: Any, _: str) -> None:
        self.sent.extend((change, then) for change in changes)

    def annealer(self, name: str, **own: Any) -> None:
        """One that runs beside ours."""
        running = Daemon(host=name, pid=1, version="1", started=0.0, **own)
        self.world.daemons.setdefault("annealer", {})[name] = running

    def put(self, fqdn: str, record: MachinePower, rack: str | None = None) -> None:
        if fqdn not in self.world.nodes:
            self.world.put_node(fqdn, Node(rack=rack), 0)
        self.world.put(Stored(record, 0), fqdn)

    def due(self, powering: Powering, within_seconds: float = 0.01) -> int:
        """Keep the timers of this moment; gives their number."""
        found = list(self.timers.due(time.monotonic() + within_seconds))
        for timer in found:
            assert timer.kind is TimerKind.POWER
            powering.due(timer.about)
        return len(found)


def asked(number: int, **own: Any) -> PowerRequest:
    now = time.time()
    given: dict[str, Any] = {"id": f"{number:016x}", "by": "ann", "since": now, "until": now + 900.0} | own
    return PowerRequest(action=PowerAction.CYCLE, **given)
