"""The context that all parts of one annealer share: identity, session, world, settings, timers, and the way to write.

Use it on the turn thread; ``post`` may be called on any thread. Everything in it is a cache of ZooKeeper and can be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.pausing import Pausing
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.daemon.turns import Controller, Turns
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.jig import Jig
from nodepool_ocb.jigs.ssh.probe import Prober
from nodepool_ocb.model.records import Change, Daemon
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb_annealer.timer_kinds import Timer
from nodepool_ocb_annealer.writing import Writing

log = logging.getLogger(__name__)


class AnnealerContext:
    """One annealer's place of work. ``controller`` is told of its turns; it may be built after the context."""

    def __init__(
        self,
        session: Session,
        settings: AnnealerSettings,
        jigs: dict[str, Jig],
        prober: Prober | None,
        identity: str,
        daemon: Daemon,
        secrets: Secrets,
        controller: Controller,
    ) -> None:
        self.session, self.settings, self.identity, self.secrets = session, settings, identity, secrets
        self.jigs, self.prober = jigs, prober
        self.cluster = ""  # its id; known once there is a session, and the same in every later one
        self.world = World()
        self.registration = Registration(session, ClientKind.ANNEALER, identity, daemon)
        self.turns = Turns(session, self.registration, controller)
        self.pausing = Pausing(session, ClientKind.ANNEALER, self.registration, self.turns.wake.set)
        self.cache = Cache(session, self.world, self.turns.wake.set, ahead=True)
        self.ranking = Ranking(identity)
        self.timers = Timers[Timer]()
        self._writing = Writing(session, self.cache, self.turns)

    def post(self, call: Callable[[], None]) -> None:
        """Have ``call`` made on the turn thread. Any thread may post."""
        self.turns.post(call)

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        """Commit without a wait; ``then(refused)`` is called in a later turn, with the cache brought up to date."""
        self._writing.send(changes, then, what)

    def spoiled(self, path: str, reason: str) -> None:
        """Note attributes that cannot be decoded. Noderoles that would see them wait until they are mended."""
        if path not in self.world.spoiled:
            log.warning("%s; the noderoles that see them wait until they are mended", reason)
        self.cache.spoiled(path, reason)

    @property
    def resting(self) -> bool:
        """Whether the annealer drains or is paused, so that it claims and drives nothing more."""
        return self.turns.draining or self.pausing.paused is not None

    def log_folder(self) -> Path | None:
        """The folder of the runs' outputs, if the settings name one."""
        return Path(self.settings.log_dir) if self.settings.log_dir else None

    def close(self) -> None:
        """End the thread of the writer."""
        self._writing.close()
