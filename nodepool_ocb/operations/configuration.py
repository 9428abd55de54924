"""``config check``: the configuration of the performer's host, and everything that its daemons would lack.

It concerns this host, so it is no operation: it reads files, and reaches ZooKeeper only to see that it answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb import config, providers
from nodepool_ocb.daemon import preflight
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import backends
from nodepool_ocb.images import nodepool as documents
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.pool.documents.reading import pool_configuration
from nodepool_ocb.providers import launching
from nodepool_ocb.views.cluster import ConfigDocument, LaunchNames, NodepoolNames

if TYPE_CHECKING:
    from nodepool_ocb.config import BuilderSettings, LauncherSettings, Settings
    from nodepool_ocb.model.records import Json

Say = Callable[[str], None]


def checked(performer: Performer, file: str | None, nodepool: Path | None, *, offline: bool) -> ConfigDocument:
    """The configuration; notes name everything that is doubtful. Raises Invalid with every fault, and the session's errors.

    ``file``: the configuration, if it was named; ``nodepool``: the file of diskimages, if not the configured one;
    ``offline``: ZooKeeper is not asked.
    """
    say = performer.caller.note
    found = file or config.find()
    settings = performer.settings()
    launches = nodepool or (
        Path(settings.launcher.nodepool) if found and preflight.may_be_there(settings.launcher.nodepool) else None
    )
    if nodepool is None and found and preflight.may_be_there(settings.builder.nodepool):
        nodepool = Path(settings.builder.nodepool)
    images = _images(nodepool, settings.builder, say) if nodepool else None
    pools = _pools(launches, settings.launcher, say) if launches else None
    for path in {each: None for each in (nodepool, launches) if each is not None}:
        _servers(path, settings, say)
    if problems := [*preflight.wrong(settings), *config.user_faults(settings.zookeeper)]:
        raise Invalid([f"{found or 'defaults'}: {each}" for each in problems])
    if not offline:
        with performer.session():
            pass
    for each in preflight.doubtful(settings, Path(found) if found else None):
        say(f"warning: {each}")
    if (nodepool or pools) and (shared := config.shared_port(settings, launcher=pools is not None)):
        say(f"warning: {shared}")
    sections = msgspec.to_builtins(settings)
    if sections["zookeeper"]["password"] is not None:
        sections["zookeeper"]["password"] = "***"
    if settings.annealer.webhook is not None:
        sections["annealer"]["webhook"]["url"] = config.receiver(settings.annealer.webhook.url)
    return ConfigDocument(
        file=str(found) if found else None,
        zookeeper_reached=None if offline else True,
        settings=sections,
        nodepool=images or msgspec.UNSET,
        launcher=pools or msgspec.UNSET,
    )


def _servers(path: Path, settings: Settings, say: Say) -> None:
    """Warn if the file names other servers of ZooKeeper than commands use."""
    read, own = documents.load(path, settings.launcher.secure, environ=os.environ).zookeeper, settings.zookeeper
    if read is None or read.hosts == own.hosts:
        return
    if own == config.ZooKeeperSettings():
        say(
            f"warning: daemons reach ZooKeeper at {read.hosts} (zookeeper-servers of {path}), and commands at {own.hosts}:"
            " write zookeeper.hosts into nodepool-ocb.yaml"
        )
    else:
        say(
            f"warning: zookeeper-servers of {path} ({read.hosts}) is not obeyed: section zookeeper of nodepool-ocb.yaml has"
            f" {own.hosts}"
        )


def _images(path: Path, builder: BuilderSettings, say: Say) -> NodepoolNames:
    """The content of a nodepool.yaml, without anything that may be secret; raises Invalid with every fault."""

    def takes(driver: str, options: Mapping[str, Json]) -> str | None:
        """The format that a provider takes; if that is not known, the default of the driver."""
        try:
            return providers.takes(driver, options)
        except Invalid as unknown:
            say(f"warning: {unknown}; give `format` where it is not the default of the driver")
            return None

    read = documents.load(path, builder.secure, environ=os.environ, takes=takes)
    checkers, left_out = backends.checkers()
    backends.check(read.diskimages, checkers, str(path), read.line)
    for each in left_out:
        say(f"warning: {each.sentence}; builders of this host leave its images to others")
    for warning in read.warnings:
        say(f"warning: {warning}")
    for provider in read.providers:
        for fault in providers.faults(provider) if provider.diskimages else ():
            section = f"providers[{provider.name}]"
            where = f"{path}:{read.line(section + '.' + fault.partition(': ')[0])}"
            say(f"warning: {where}: {section}: {fault}; builders of this host leave it out")
    return NodepoolNames(
        file=str(path),
        diskimages=tuple(image.name for image in read.diskimages if not image.stub),
        providers=tuple(provider.name for provider in read.providers),
        labels=tuple(label.name for label in read.labels),
    )


def _pools(path: Path, launcher: LauncherSettings, say: Say) -> LaunchNames | None:
    """The pools of a nodepool.yaml, if it has any. A key that launchers refuse is a note: the file may be a builder's alone.

    Raises Invalid with every fault that builders refuse, too.
    """
    read = documents.load(path, launcher.secure, environ=os.environ)
    if not any(provider.launch.get("pools") for provider in read.providers):
        return None
    try:
        configuration = pool_configuration(read, str(path), launching.drivers(), launcher.patience_seconds)
    except Invalid as refused:
        for each in refused.problems:
            say(f"warning: {each}; launchers refuse the file")
        return LaunchNames(file=str(path), pools=(), labels=(), omitted=(), refused=tuple(refused.problems))
    pools = [pool for provider in configuration.providers.values() for pool in provider.pools.values()]
    return LaunchNames(
        file=str(path),
        pools=tuple(f"{pool.provider}/{pool.name}" for pool in pools),
        labels=tuple(sorted({label for pool in pools for label in pool.labels})),
        omitted=configuration.omitted,
    )
