"""``nodepool-ocb-builder``: the process around a Builder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from nodepool_ocb import config, providers
from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.command import CommandOptions, program
from nodepool_ocb.daemon.life import live
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.errors import Invalid
from nodepool_ocb.extensions import titled
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.http.logs import LogPage
from nodepool_ocb.http.page import PrivatePages
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import logkeys, nodepool11
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.builder import Builder
from nodepool_ocb_builder.configuration import Formats, end_within_seconds, files, listen, load, reloading, uploaders
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import ImageDirectory

LOGS: Final = "builds"  # below images-dir, where build-log-dir does not say otherwise

log = logging.getLogger(__name__)


def run(asked: CommandOptions, settings: config.Settings) -> None:
    """Build until a signal ends it; raises Unavailable where ZooKeeper cannot be reached at the start, and NoCluster."""
    configured = settings
    tools, left_out = backends.installed()
    left_out += providers.installed().left_out
    for each in left_out:
        log.warning("%s", each.sentence)
    formats, changed = Formats(), ChangedFiles(files(settings))
    wants = load(settings, tools, formats)
    if wants.zookeeper is not None and settings.zookeeper == config.ZooKeeperSettings() and not asked.zookeeper:
        settings = replace(settings, zookeeper=wants.zookeeper)  # a nodepool.yaml alone is enough
    if wants.images_dir is None:
        raise Invalid(f"{settings.builder.nodepool}: key `images-dir` is missing; name the directory to keep images in")
    folder = Path(wants.images_dir)
    directory = ImageDirectory(folder, Path(wants.build_log_dir) if wants.build_log_dir else folder / LOGS)
    session = Session(
        settings.zookeeper,
        on_lost=lambda: builder.turns.wake.set(),
        on_connected=lambda: builder.turns.wake.set(),
        tree=nodepool11.tree(settings.layout),
    )
    context = Context(session, directory, settings.builder, wants, tools, uploaders(wants))
    certificate = OwnCertificate()
    record = of_this_process(
        slots=settings.builder.build_workers, left_out=titled(left_out), certificate=certificate.digest
    )
    builder = Builder(context, record)
    log.info("builder %s in %s with %d images", directory.builder_id, folder, len(wants.diskimages))
    try:
        live(
            builder,
            session,
            reloading(asked, configured, wants, builder, formats, changed).plan,
            changed=changed,
            listen=asked.listen or listen(settings),
            private=PrivatePages(
                {"logs": LogPage(lambda: directory.logs, builder.idle_about)}, certificate, logkeys.Readers(session)
            ),
            on_listening=builder.served_at,
            end_within_seconds=end_within_seconds(settings),
        )
    finally:
        directory.close()


main = program(
    ClientKind.BUILDER,
    "Build the configured images, upload them to the providers, and clean up, together with all other builders.",
    run,
    check=lambda settings: load(settings, backends.installed()[0], Formats()),
)

if __name__ == "__main__":
    main()
