"""What hooks need of the annealer, and the appointments that are made for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.agenda import Agenda
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.records import Change
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_annealer.appointments import Appointment

SEPARATOR: Final = "/"  # between deployment and role in an appointment


class Context(Protocol):
    """The annealer, as its hooks see it."""

    session: Session
    world: World
    agenda: Agenda[Appointment]
    ranking: Ranking
    settings: AnnealerSettings
    identity: str
    registration: Registration

    def spoiled(self, path: str, reason: str) -> None: ...
    def post(self, call: Callable[[], None]) -> None: ...
    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None: ...


def appoint(context: Context, asked: Appointment, subject: str, after_seconds: float = 0.0) -> None:
    """Run the hook ``after_seconds``, and later where other annealers rank before this one for its subject."""
    wait = after_seconds + context.ranking.of(subject) * context.settings.steal_delay_seconds
    context.agenda.at(time.monotonic() + wait, asked)
