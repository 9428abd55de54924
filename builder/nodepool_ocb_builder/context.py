"""The context of every room of the builder: its id, its session, its directory, its configuration."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from nodepool_ocb.config import BuilderSettings
from nodepool_ocb.errors import NoCluster, Stale, Unavailable
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.images.nodepool import Nodepool, Provider
from nodepool_ocb.images.rules import Carrier, ImagePolicy, ImageView
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.providers.provider import Uploader
from nodepool_ocb.providers.stamp import Stamp
from nodepool_ocb.store import clusters, images
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from nodepool_ocb_builder.backends import Backend
from nodepool_ocb_builder.image_directory import ImageDirectory

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN_SECONDS: Final = 0.5  # between two attempts to write finished work, while ZooKeeper is away
STALE_IN_A_ROW: Final = 5  # after which a faster writer is not the only cause: such attempts wait as well


class DaemonStopped(Exception):
    """The daemon ends before ZooKeeper was there to be told."""


class Context:
    """One builder's place of work. ``stopping`` is set when its work is to end now."""

    def __init__(
        self,
        session: Session,
        directory: ImageDirectory,
        settings: BuilderSettings,
        nodepool: Nodepool,
        backends: Mapping[str, Backend],
        uploaders: Mapping[str, Uploader],
    ) -> None:
        self.session, self.directory, self.backends = session, directory, backends
        self.locks = Locks(session)
        self.host = socket.gethostname()
        self.cluster = ""  # known once there is a session
        self.gone: frozenset[str] = frozenset()  # the ids of builders that have not been there for long
        self.stopping = threading.Event()
        self.sending: set[Stamp] = (
            set()
        )  # of the attempts that this process makes now: added before, removed after the record
        self.configure(settings, nodepool, uploaders)

    def configure(self, settings: BuilderSettings, nodepool: Nodepool, uploaders: Mapping[str, Uploader]) -> None:
        """Take over a configuration; work under way keeps its settings."""
        self.settings, self.nodepool, self.uploaders = settings, nodepool, uploaders
        self.diskimages: Mapping[str, Diskimage] = {image.name: image for image in nodepool.diskimages}
        self.providers: Mapping[str, Provider] = {provider.name: provider for provider in nodepool.providers}

    @property
    def builder_id(self) -> str:
        return self.directory.builder_id

    def wanted(self, image: Diskimage) -> ImagePolicy:
        """The inputs of the rules about an image."""
        keep = self.settings.keep if image.keep is None else image.keep
        return ImagePolicy(
            formats=image.formats,
            rebuild_age_seconds=image.rebuild_age_seconds,
            pause=image.pause,
            keep=keep,
            carriers=self.carriers(image.name),
            gone=self.gone,
            builder_id=self.builder_id,
            rebuild_spread=self.settings.rebuild_spread,
        )

    def carriers(self, image: str) -> dict[str, Carrier]:
        """The providers that are to have an image, as far as we can upload to them."""
        return {
            provider.name: Carrier(carried.format, carried.pause)
            for provider in self.providers.values()
            for carried in provider.diskimages
            if carried.name == image and provider.name in self.uploaders
        }

    def holder(self, purpose: str) -> LockOwner:
        """The record of a lock of ours."""
        return LockOwner(daemon="builder", host=self.host, pid=os.getpid(), purpose=purpose, since=self.session.now())

    def look(self, image: str, *needed: str) -> ImageView | None:
        """An image as it is now, no older than this call; None where it is gone.

        Raises Unavailable, also while one of the records at ``needed`` cannot be read: it is there, and no more is known.
        """
        self.sync()
        quarantined: dict[str, str] = {}
        view = images.read(self.session, [image], quarantined).get(image)
        for path in needed:
            if path in quarantined:
                raise Unavailable(f"{quarantined[path]}; decisions that need it wait until it is mended or deleted")
        return view

    def sync(self) -> None:
        """Later reads are no older than this call, and of our cluster.

        Raises Unavailable, also if another cluster answers, or none: records that it lacks say nothing about our files.
        """
        self.session.sync()
        try:
            clusters.current(self.session, self.cluster)
        except NoCluster as elsewhere:
            raise Unavailable(str(elsewhere)) from elsewhere

    def write_until_done(self, write: Callable[[], T]) -> T:
        """Repeat a function that reads and then writes until it succeeds: again after Stale, and when ZooKeeper is back.

        Raises DaemonStopped when the daemon has to end first.
        """
        stale, logged = 0, set[str]()
        while True:
            try:
                return write()
            except Stale:
                stale += 1  # it reads anew, and decides anew
                if stale < STALE_IN_A_ROW:
                    continue
            except Unavailable as gone:
                stale = 0
                if str(gone) not in logged:
                    logged.add(str(gone))
                    log.warning("results cannot be written yet, and the write is tried again: %s", gone)
            if self.stopping.wait(AGAIN_SECONDS):
                raise DaemonStopped
