"""A builder's configuration: nodepool-ocb.yaml, and the nodepool.yaml that it names (with a secure file over it).

When it is read again the builder takes over all but FIXED and FIXED_OF_NODEPOOL, and names the changed ones of these.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb import providers
from nodepool_ocb.config import Settings
from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.command import CommandOptions
from nodepool_ocb.daemon.reloading import Reload, Reloading
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.images.nodepool import Nodepool, Takes
from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.provider import Uploader
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.backends import Backend
from nodepool_ocb_builder.builder import Builder

log = logging.getLogger(__name__)

END_SECONDS: Final = 15.0  # after draining; then the process ends by force
#: A session is of one ensemble and one user, a cache is of one tree, and its directory gives a builder its identity.
FIXED: Final = ("zookeeper", "layout")
FIXED_OF_NODEPOOL: Final = {"images_dir": "images-dir", "build_log_dir": "build-log-dir", "zookeeper": "zookeeper-*"}


def reloading(
    asked: CommandOptions, settings: Settings, wants: Nodepool, builder: Builder, takes: Takes, changed: ChangedFiles
) -> Reloading:
    """The reload of a builder that was started with these settings."""

    def prepare(fresh: Settings) -> Reload:
        """Raises Invalid where something of the new configuration cannot be used."""
        noticed = changed.noticed
        changed.taken(files(fresh))
        read = load(fresh, builder.context.backends, takes)
        if noticed and builder.context.diskimages and not read.diskimages:
            raise Invalid(f"{fresh.builder.nodepool} has no diskimage any more; if that is meant, reload the builder")
        unmoved = [name for field, name in FIXED_OF_NODEPOOL.items() if getattr(read, field) != getattr(wants, field)]
        return Reload(
            apply=partial(_apply, fresh, read, uploaders(read), builder),
            listen=asked.listen or listen(fresh),
            end_within_seconds=end_within_seconds(fresh),
            waiting=tuple(unmoved),
        )

    return Reloading(settings, asked.read, FIXED, prepare)


def _apply(fresh: Settings, wants: Nodepool, uploaders: Mapping[str, Uploader], builder: Builder) -> None:
    builder.context.configure(fresh.builder, wants, uploaders)
    builder.reconfigured()


def files(settings: Settings) -> list[str]:
    """The files that are watched for changes."""
    return [settings.builder.nodepool, *filter(None, [settings.builder.secure])]


def listen(settings: Settings) -> str | None:
    """HOST:PORT of a builder's pages."""
    return settings.builder.listen or settings.http.listen


def end_within_seconds(settings: Settings) -> float:
    """Of a signal."""
    return settings.builder.drain_seconds + END_SECONDS


class Formats:
    """The formats that providers take, as their drivers know them.

    A known format counts if it cannot be found now: a clouds.yaml that is unreadable for a while is no reason to build in
    another format."""

    def __init__(self) -> None:
        self._known: dict[bytes, str | None] = {}

    def __call__(self, driver: str, options: Mapping[str, Json]) -> str | None:
        key = msgspec.json.encode((driver, options), order="deterministic")
        try:
            self._known[key] = providers.takes(driver, options)
        except Invalid as unknown:
            known = self._known.get(key)
            log.warning("which format it takes is not known now, %s is taken: %s", known or "the default", unknown)
        return self._known.get(key)


def load(settings: Settings, tools: Mapping[str, Backend], takes: Takes) -> nodepool.Nodepool:
    """Nodepool's configuration, checked against the installed packages. Raises Invalid with every fault."""
    file = settings.builder.nodepool
    if not os.path.lexists(file) and os.access(Path(file).parent, os.X_OK):  # else reading it says why not
        raise Invalid(f"{file}: is not there; write it (docs/images.md), or name another in builder.nodepool")
    wants = nodepool.load(file, settings.builder.secure, environ=os.environ, takes=takes)
    backends.check(wants.diskimages, tools, file, wants.line)
    for warning in wants.warnings:
        log.warning("%s", warning)
    return wants


def uploaders(wants: nodepool.Nodepool) -> Mapping[str, Uploader]:
    """The providers that we can upload to, also those that get no images any more. A provider without a driver here is left to
    other builders, with a message if it has images.
    """
    opened: dict[str, Uploader] = {}
    for provider in wants.providers:
        try:
            opened[provider.name] = providers.open(provider)
        except Invalid as missing:
            level = logging.WARNING if provider.diskimages else logging.DEBUG
            log.log(level, "left out, nothing built here will be sent there: %s", missing)
    return opened
