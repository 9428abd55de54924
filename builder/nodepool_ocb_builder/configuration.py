"""A builder's configuration: nodepool-ocb.yaml, and the nodepool.yaml that it names (with a secure file over it).

When it is read again the builder takes over all but FIXED and FIXED_OF_NODEPOOL, and names what of these has changed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from nodepool_ocb import providers
from nodepool_ocb.config import Settings
from nodepool_ocb.daemon import reloading
from nodepool_ocb.daemon.command import Asked
from nodepool_ocb.daemon.reloading import Reload
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.images.nodepool import Nodepool
from nodepool_ocb.providers.provider import Uploader
from nodepool_ocb.telemetry import logs
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.backends import Backend
from nodepool_ocb_builder.builder import Builder

log = logging.getLogger(__name__)

END_SECONDS: Final = 15.0  # after draining; then the process ends by force
#: A session is of one ensemble and one user, and a builder is who its directory says.
FIXED: Final = ("zookeeper",)
FIXED_OF_NODEPOOL: Final = {"images_dir": "images-dir", "build_log_dir": "build-log-dir", "zookeeper": "zookeeper-*"}


class Reloading:
    """Knows what counts. Call it on the turn thread."""

    def __init__(self, asked: Asked, settings: Settings, wants: Nodepool, builder: Builder) -> None:
        self._asked, self._settings, self._first, self._builder = asked, settings, wants, builder

    def plan(self) -> Reload:
        """What is to be done; raises Invalid where something of the new configuration cannot be used."""
        fresh, waiting = reloading.kept(self._settings, self._asked.read(), FIXED)
        wants = load(fresh, self._builder.context.backends)
        unmoved = [
            name for field, name in FIXED_OF_NODEPOOL.items() if getattr(wants, field) != getattr(self._first, field)
        ]
        return Reload(
            apply=partial(self._apply, fresh, wants, uploaders(wants)),
            listen=self._asked.listen or listen(fresh),
            end_within_seconds=end_within_seconds(fresh),
            waiting=(*waiting, *unmoved),
        )

    def _apply(self, fresh: Settings, wants: Nodepool, uploaders: Mapping[str, Uploader]) -> None:
        logs.setup_logging(fresh.log)
        self._builder.context.configure(fresh.builder, wants, uploaders)
        self._builder.reconfigured()
        self._settings = fresh


def listen(settings: Settings) -> str | None:
    """HOST:PORT of a builder's pages."""
    return settings.builder.listen or settings.http.listen


def end_within_seconds(settings: Settings) -> float:
    """Of a signal."""
    return settings.builder.drain_seconds + END_SECONDS


def load(settings: Settings, tools: Mapping[str, Backend]) -> nodepool.Nodepool:
    """Nodepool's configuration, checked against what is installed here. Raises Invalid with every fault."""
    file = settings.builder.nodepool
    if not os.path.lexists(file) and os.access(Path(file).parent, os.X_OK):  # else reading it says why not
        raise Invalid(f"{file}: is not there; write it (docs/images.md), or name another in builder.nodepool")
    wants = nodepool.load(file, settings.builder.secure, environ=os.environ)
    backends.check(wants.diskimages, tools, file, wants.line)
    return wants


def uploaders(wants: nodepool.Nodepool) -> Mapping[str, Uploader]:
    """The providers that we can upload to, those too that are to have nothing any more; what has no driver here is left to
    other builders, and told if it is to have images.
    """
    opened: dict[str, Uploader] = {}
    for provider in wants.providers:
        try:
            opened[provider.name] = providers.open(provider)
        except Invalid as missing:
            level = logging.WARNING if provider.diskimages else logging.DEBUG
            log.log(level, "left out, nothing built here will be sent there: %s", missing)
    return opened
