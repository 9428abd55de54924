"""``nodepool-ocb-builder``: the process around a Builder."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from nodepool_ocb import config, metrics, nodepool, providers
from nodepool_ocb.daemon import serve
from nodepool_ocb.errors import Invalid
from nodepool_ocb.logpages import LogPage
from nodepool_ocb.model import Daemon
from nodepool_ocb.program import Asked, program
from nodepool_ocb.providers.provider import Uploader
from nodepool_ocb.rights import Kind
from nodepool_ocb.store.session import Session
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.backends import Backend
from nodepool_ocb_builder.builder import Builder
from nodepool_ocb_builder.shelf import Shelf
from nodepool_ocb_builder.site import Site

END_SECONDS: Final = 15.0  # after draining; then the process ends by force
LOGS: Final = "builds"  # below images-dir, where build-log-dir does not say otherwise

log = logging.getLogger(__name__)


def run(asked: Asked) -> None:
    """Build until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start, and NoCluster."""
    settings = asked.settings
    tools = backends.installed()
    wants = load(settings, tools)
    if wants.zookeeper is not None and settings.zookeeper == config.ZooKeeperSettings() and not asked.zookeeper:
        settings = replace(settings, zookeeper=wants.zookeeper)  # a nodepool.yaml alone is enough
    if wants.images_dir is None:
        raise Invalid(f"{settings.builder.nodepool}: key `images-dir` is missing; name the directory to keep images in")
    folder = Path(wants.images_dir)
    shelf = Shelf(folder, Path(wants.build_log_dir) if wants.build_log_dir else folder / LOGS)
    session = Session(settings.zookeeper, on_lost=lambda: builder.wake.set(), on_connected=lambda: builder.wake.set())
    site = Site(session, shelf, settings.builder, wants, tools, uploaders(wants))
    builder = Builder(site, _daemon(settings))
    metrics.SessionCounts(session)
    session.start()
    log.info("builder %s in %s with %d images", shelf.builder_id, folder, len(wants.diskimages))

    def reload() -> None:
        fresh = config.load(asked.file)
        again = load(fresh, tools)
        for key in ("images_dir", "build_log_dir", "zookeeper"):
            if getattr(again, key) != getattr(wants, key):
                log.warning("%s: what changed in it counts from the next start on", key.replace("_", "-"))
        site.configure(fresh.builder, again, uploaders(again))
        builder.reconfigured()

    try:
        builder.daemon = replace(builder.daemon, started=session.now())
        serve(
            builder.turn,
            builder.wake,
            builder.stop,
            reload=reload,
            drained=lambda: builder.drained,
            ready=lambda: None if session.trusted else "ZooKeeper does not answer",
            listen=asked.listen,
            pages={"logs": LogPage(shelf.logs, builder.idle_about)},
            on_listening=builder.served_at,
            end_within_seconds=settings.builder.drain_seconds + END_SECONDS,
        )
    finally:
        builder.close()
        session.close()
        shelf.close()


def load(settings: config.Settings, tools: Mapping[str, Backend]) -> nodepool.Nodepool:
    """Nodepool's configuration, checked against what is installed here. Raises Invalid with every fault."""
    file = settings.builder.nodepool
    if not Path(file).exists():
        raise Invalid(f"{file}: is not there; write it (docs/images.md), or name another in builder.nodepool")
    wants = nodepool.load(file, settings.builder.secure)
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
            told = logging.WARNING if provider.diskimages else logging.DEBUG
            log.log(told, "left out, nothing built here will be sent there: %s", missing)
    return opened


def _daemon(settings: config.Settings) -> Daemon:
    return Daemon(
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("nodepool-ocb"),
        started=time.time(),
        slots=settings.builder.build_workers,
    )


main = program(
    Kind.BUILDER,
    "Build the configured images, upload them to the providers, and clean up, together with all other builders.",
    run,
)

if __name__ == "__main__":
    main()
