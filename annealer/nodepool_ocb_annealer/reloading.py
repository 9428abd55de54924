"""The reload of an annealer's configuration: it takes over all settings except FIXED, and names the rest."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from nodepool_ocb.config import Settings
from nodepool_ocb.daemon import belonging, preflight
from nodepool_ocb.daemon.command import CommandOptions
from nodepool_ocb.daemon.reloading import Reload, Reloading
from nodepool_ocb.errors import Invalid
from nodepool_ocb.extensions import in_a_line
from nodepool_ocb.jigs.jig import Configurable
from nodepool_ocb.jigs.ssh.probe import NoKey, Prober
from nodepool_ocb.secrecy import references
from nodepool_ocb_annealer.annealer import Annealer

log = logging.getLogger(__name__)

END_SECONDS: Final = 10.0  # after draining; then the process ends by force
#: A session is of one ensemble and one user; and where machines keep their runs must not change while one goes on.
FIXED: Final = ("zookeeper", "ssh.state_dir")


def reloading(asked: CommandOptions, settings: Settings, annealer: Annealer, prober: Prober) -> Reloading:
    """The reload of an annealer that was started with these settings."""

    def prepare(fresh: Settings) -> Reload:
        """Raises Invalid or NoCluster where something of the new configuration cannot be used."""
        if prober.has_keys:
            try:
                prober.load_keys(fresh.ssh)
            except NoKey as lost:
                raise Invalid(f"{lost}; the keys that were read before stay in use") from lost
        if faults := preflight.webhook_faults(fresh):
            raise Invalid(faults)
        if annealer.context.cluster:  # else the first turn looks
            belonging.of_logs(fresh.annealer.log_dir, annealer.context.cluster)
        return Reload(
            apply=partial(_apply, fresh, annealer, prober),
            listen=asked.listen or fresh.http.listen,
            end_within_seconds=end_within_seconds(fresh),
            waiting=_unmoved(annealer) if fresh != settings else (),
        )

    return Reloading(settings, asked.read, FIXED, prepare)


def _unmoved(annealer: Annealer) -> tuple[str, ...]:
    """The jigs that cannot take over the changed settings."""
    return tuple(f"jig {name}" for name, jig in annealer.context.jigs.items() if not isinstance(jig, Configurable))


def _apply(fresh: Settings, annealer: Annealer, prober: Prober) -> None:
    prober.configure(fresh.ssh)
    for name, jig in annealer.context.jigs.items():
        if isinstance(jig, Configurable):
            try:
                jig.configure(fresh)
            except Exception as error:  # of a package of others; the rest takes the settings over all the same
                log.warning("jig %s keeps its settings: configure raised %s", name, in_a_line(error))
    annealer.powering.configure(fresh.ssh)
    annealer.context.secrets.configure(fresh.secrets)
    annealer.context.registration.change(references=references.kinds(fresh.secrets))
    annealer.configure(fresh.annealer)


def end_within_seconds(settings: Settings) -> float:
    """Of a signal."""
    return settings.annealer.drain_seconds + END_SECONDS
