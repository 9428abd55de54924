"""What an annealer does when its configuration is read again: it takes over all but FIXED, and names the rest."""

from __future__ import annotations

from functools import partial
from typing import Final

from nodepool_ocb.config import Settings
from nodepool_ocb.daemon import belonging, reloading
from nodepool_ocb.daemon.command import Asked
from nodepool_ocb.daemon.reloading import Reload
from nodepool_ocb.errors import Invalid
from nodepool_ocb.jigs.jig import Configurable
from nodepool_ocb.jigs.ssh.probe import NoKey, Prober
from nodepool_ocb.telemetry import logs
from nodepool_ocb_annealer.annealer import Annealer

END_SECONDS: Final = 10.0  # after draining; then the process ends by force
#: A session is of one ensemble and one user; and where machines keep their runs must not change while one goes on.
FIXED: Final = ("zookeeper", "ssh.state_dir")


class Reloading:
    """Knows the settings that count. Call it on the turn thread."""

    def __init__(self, asked: Asked, settings: Settings, annealer: Annealer, prober: Prober) -> None:
        self._asked, self._settings, self._annealer, self._prober = asked, settings, annealer, prober
        self._first = settings  # that the jigs were made with

    def plan(self) -> Reload:
        """What is to be done. Raises Invalid or NoCluster where something of the new configuration cannot be used."""
        fresh, waiting = reloading.kept(self._settings, self._asked.read(), FIXED)
        if self._prober.has_keys:
            try:
                self._prober.load_keys(fresh.ssh)
            except NoKey as lost:
                raise Invalid(f"{lost}; the keys that were read before stay in use") from lost
        if self._annealer.cluster:  # else the first turn looks
            belonging.of_logs(fresh.annealer.log_dir, self._annealer.cluster)
        return Reload(
            apply=partial(self._apply, fresh),
            listen=self._asked.listen or fresh.http.listen,
            end_within_seconds=end_within_seconds(fresh),
            waiting=(*waiting, *self._unmoved(fresh)),
        )

    def _unmoved(self, fresh: Settings) -> list[str]:
        """The jigs that cannot take over what changed."""
        if fresh == self._first:
            return []
        return [f"jig {name}" for name, jig in self._annealer.jigs.items() if not isinstance(jig, Configurable)]

    def _apply(self, fresh: Settings) -> None:
        logs.setup_logging(fresh.log)
        self._prober.configure(fresh.ssh)
        for jig in self._annealer.jigs.values():
            if isinstance(jig, Configurable):
                jig.configure(fresh)
        self._annealer.configure(fresh.annealer)
        self._settings = fresh


def end_within_seconds(settings: Settings) -> float:
    """Of a signal."""
    return settings.annealer.drain_seconds + END_SECONDS
