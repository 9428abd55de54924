"""A launcher's configuration: nodepool-ocb.yaml, and the nodepool.yaml that it names (with a secure file over it).

When it is read again the launcher takes over all but FIXED, and names the changed ones of these. Machines of a provider that is
gone remain until it returns.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from nodepool_ocb.config import Settings
from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.command import CommandOptions
from nodepool_ocb.daemon.reloading import Reload, Reloading
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration
from nodepool_ocb.pool.documents.reading import LaunchDrivers, pool_configuration
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb_launcher.launcher import Launcher

log = logging.getLogger(__name__)

END_SECONDS: Final = 15.0  # after draining; then the process ends by force
#: A session is of one ensemble and one user.
FIXED: Final = ("zookeeper", "layout")
FIXED_OF_NODEPOOL: Final = "zookeeper-*"


def reloading(
    asked: CommandOptions, settings: Settings, read: nodepool.Nodepool, launcher: Launcher, changed: ChangedFiles
) -> Reloading:
    """The reload of a launcher that was started with these settings."""

    def prepare(fresh: Settings) -> Reload:
        """Raises Invalid where something of the new configuration cannot be used."""
        noticed = changed.noticed
        changed.taken(files(fresh))
        file = load(fresh)
        wants = configuration(fresh, file)
        if noticed and launcher.context.configuration.providers and not wants.providers:
            raise Invalid(f"{fresh.launcher.nodepool} has no pool any more; if that is meant, reload the launcher")
        calls = opened(fresh, wants, launcher.context.configuration, launcher.context.providers)
        waiting = () if file.zookeeper == read.zookeeper else (FIXED_OF_NODEPOOL,)
        return Reload(
            apply=partial(_apply, fresh, wants, calls, launcher),
            listen=asked.listen or listen(fresh),
            end_within_seconds=end_within_seconds(fresh),
            waiting=waiting,
        )

    return Reloading(settings, asked.read, FIXED, prepare)


def _apply(fresh: Settings, wants: PoolConfiguration, calls: Mapping[str, MachineCalls], launcher: Launcher) -> None:
    before = launcher.context.providers
    launcher.context.configure(fresh, wants, calls)
    for name, replaced in before.items():
        if calls.get(name) is not replaced:
            replaced.retire()
    launcher.reconfigured()


def files(settings: Settings) -> list[str]:
    """The files that are watched for changes."""
    return [settings.launcher.nodepool, *filter(None, [settings.launcher.secure])]


def listen(settings: Settings) -> str | None:
    """HOST:PORT of a launcher's pages."""
    return settings.launcher.listen or settings.http.listen


def end_within_seconds(settings: Settings) -> float:
    """Of a signal."""
    return settings.launcher.drain_seconds + END_SECONDS


def load(settings: Settings) -> nodepool.Nodepool:
    """The nodepool.yaml. Raises Invalid with every fault."""
    file = settings.launcher.nodepool
    if not os.path.lexists(file) and os.access(Path(file).parent, os.X_OK):  # else reading it gives the reason
        raise Invalid(f"{file}: is not there; write it (docs/pool.md), or name another in launcher.nodepool")
    read = nodepool.load(file, settings.launcher.secure, environ=os.environ)
    for warning in read.warnings:
        log.warning("%s", warning)
    return read


def configuration(settings: Settings, read: nodepool.Nodepool) -> PoolConfiguration:
    """The labels and pools of a file. Raises Invalid with every key that is refused."""
    drivers = LaunchDrivers(names=frozenset(launching.names()), faults=launching.faults, resources=launching.resources)
    found = pool_configuration(read, settings.launcher.nodepool, drivers, settings.launcher.patience_seconds)
    for sentence in found.omitted:
        log.warning("%s", sentence)
    return found


def opened(
    settings: Settings,
    wants: PoolConfiguration,
    before: PoolConfiguration | None = None,
    calls: Mapping[str, MachineCalls] | None = None,
) -> Mapping[str, MachineCalls]:
    """The calls of each provider with pools; those of an unchanged provider stay. Raises Invalid."""
    known, kept = calls or {}, {} if before is None else before.providers
    return {
        name: known[name]
        if name in known and _same(kept.get(name), provider)
        else launching.open(provider, settings.ssh)
        for name, provider in wants.providers.items()
        if provider.pools
    }


def _same(before: LaunchProvider | None, now: LaunchProvider) -> bool:
    return before == now


def check(settings: Settings) -> PoolConfiguration:
    """For ``--check``: raises Invalid with every fault."""
    return configuration(settings, load(settings))
