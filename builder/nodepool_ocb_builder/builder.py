"""The builder's controller: it decides by the rules (nodepool_ocb.images.rules), and begins due work.

All state here is a cache and can be lost. Pools of workers do long work: builds, uploads, tidying up. ``daemon.turns`` has
the order of a turn; between turns an idle builder sends no requests.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Final

from nodepool_ocb.daemon.backoff import Backoff
from nodepool_ocb.daemon.pausing import Pausing
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.turns import Turns
from nodepool_ocb.daemon.workers import WorkerPool
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.images.rules import Due, ImageView, due, due_uploads
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import clusters
from nodepool_ocb.store.images import ImageCache
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_builder import peers, space
from nodepool_ocb_builder.build import Building
from nodepool_ocb_builder.cleanup.housekeeping import Housekeeping
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.peers import Peers
from nodepool_ocb_builder.sandbox import isolation
from nodepool_ocb_builder.upload import Uploading, elsewhere

log = logging.getLogger(__name__)

EQUIPMENT_SECONDS: Final = 600.0  # between two log lines about an image that cannot be built here
ABANDON_SECONDS: Final = 8.0  # after all was told to end: work that is still not over is left as if we had died
CLOSE_SECONDS: Final = 3.0


class Builder:
    """All on the turn thread, but for ``idle_about``."""

    def __init__(self, context: Context, daemon: Daemon) -> None:
        self.context = context
        taken = partial(peers.namesake, context.directory)
        self.registration = Registration(context.session, ClientKind.BUILDER, context.builder_id, daemon, taken)
        self.turns = Turns(context.session, self.registration, self)
        self.pausing = Pausing(context.session, ClientKind.BUILDER, self.registration, self.turns.wake.set)
        wake = self.turns.wake.set
        self.cache = ImageCache(context.session, wake)
        self.builds = WorkerPool("build", context.settings.build_workers, wake)
        self.uploads = WorkerPool("upload", context.settings.upload_workers, wake)
        self._building: dict[str, Building] = {}  # by image
        self._backoff = Backoff()
        self._keeping = Housekeeping(context, self._backoff, wake)
        self._counted: set[str] = set()  # the images that metrics are there for
        self._swept_builds = False
        self._company = Peers()
        self.trouble: str | None = None  # why it cannot build, as the newest sweep found it

    # -- reads --

    @property
    def sweep_seconds(self) -> float:
        """The time from one sweep to the next."""
        return self.context.settings.sweep_seconds

    def load(self) -> None:
        """A new session: register, see that every image is known, read all."""
        session, context = self.context.session, self.context
        context.cluster = clusters.current(session, context.cluster).id
        context.directory.belong(context.cluster)
        self.registration.change(providers=tuple(context.uploaders), images=peers.settings(context))
        if context.diskimages and not self.registration.record.images:
            log.info("%d images are too many to be compared with those of other builders", len(context.diskimages))
        self.registration.write()
        self._sweep_builds()
        session.ensure(*map(paths.builds, context.diskimages))
        context.locks.sweep()
        self.pausing.load()
        self.cache.load()
        self._look_around()

    def refresh(self) -> None:
        """Read the images that something happened to."""
        self.cache.refresh()

    def sweep(self) -> None:
        """Read everything."""
        self.context.locks.sweep()
        known = self.cache.cluster
        self.cache.sweep()
        if self.cache.cluster != known:  # made anew below a session that lives on
            clusters.current(self.context.session, self.context.cluster)
        self._look_around()

    def _look_around(self) -> None:
        """Check whether this host can build, and look for other builders."""
        context, trouble = self.context, self._blocker()
        if space.kind(trouble) != space.kind(self.trouble):  # how much room there is changes all the time
            self.trouble = trouble
        builders = {build.record.builder_id for view in self.cache.images.values() for build in view.ready()}
        context.gone = self._company.look(context.session, builders, context.settings.gone_seconds)
        if context.session.tree.foreign and context.session.children(paths.components(ClientKind.BUILDER)):
            context.gone = frozenset()  # a builder of Nodepool runs, and its registration does not tell its id
        self.registration.compare(self._company.said(context.builder_id))
        if (images := peers.settings(context)) != self.registration.record.images:  # a program came or went
            self.registration.change(images=images)

    def _blocker(self) -> str | None:
        """Why this host cannot build now."""
        directory = self.context.directory
        return space.blocker(directory.folder, directory.logs, self.context.settings.free_bytes)

    def _sweep_builds(self) -> None:
        """End the builds of an earlier process here: once, and not before the directory is known to be ours alone."""
        if not self._swept_builds:
            for fault in isolation.sweep(self.context.directory.folder):
                log.warning("left by an earlier builder: %s", fault)
            self._swept_builds = True

    def served_at(self, address: str | None) -> None:
        """HOST:PORT of our pages, or that there are none; before the first turn, or before ``reconfigured``."""
        self.registration.change(pages=address)

    def doing(self) -> str:
        """The present work, in one sentence."""
        building = sorted(self._at_work())
        uploads = len(self.uploads.busy)
        work = [f"building {', '.join(building)}"] if building else []
        work += [f"{uploads} {'upload' if uploads == 1 else 'uploads'} under way"] if uploads else []
        resting = (
            "draining: " if self.turns.draining else f"paused {self.pausing.paused}; " if self.pausing.paused else ""
        )
        return resting + ("; ".join(work) or "nothing to do")

    def idle_about(self, name: str) -> bool:
        """Whether nothing is added to the log of a build any more; on any thread."""
        return all(building.name != name for building in list(self._building.values()) if building.under_way)

    def reconfigured(self) -> None:
        """The site has another configuration: everything is looked at again."""
        self.builds.size = self.context.settings.build_workers
        self.uploads.size = self.context.settings.upload_workers
        self.registration.change(slots=self.context.settings.build_workers)
        self._backoff.hurry()
        self.turns.load_again()

    # -- work --

    def decide(self) -> float:
        """Begin all that is due; gives the seconds until more will be."""
        now = self.context.session.now()
        if self.pausing.look():
            log.info("paused %s", self.pausing.paused) if self.pausing.paused else log.info("resumed")
        waits = [self._look_at(view, now) for view in self.cache.images.values()]
        if not self.turns.stop.is_set():
            self._keeping.look_around(self.cache, self._at_work())
        self._count()
        return max(
            0.05,
            min([*waits, *self._backoff.timers(), self.pausing.seconds, self.context.settings.sweep_seconds]),
        )

    def trouble_changed(self, trouble: str | None) -> None:
        """Nothing follows: each image is looked at in each turn."""

    # -- one image --

    def _look_at(self, view: ImageView, now: float) -> float:
        """Begin the due work of an image; returns the seconds until the next due work."""
        if self.turns.stop.is_set():
            return float("inf")
        building = self._at_work().get(view.name)
        working = building.id if building else None
        tidied = self._keeping.tidy(view, working, self._company.living, now)
        if self.pausing.paused:
            return tidied
        return min(tidied, self._build(view, now), self._upload(view, now))

    def _at_work(self) -> dict[str, Building]:
        """The builds under way, by image."""
        busy = self.builds.busy
        return {image: building for image, building in self._building.items() if image in busy}

    def _build(self, view: ImageView, now: float) -> float:
        image = self.context.diskimages.get(view.name)
        if image is None or not self._for_us(image) or view.holder is not None:
            return float("inf")
        decision = due(view, self.context.wanted(image), now, self.context.settings.retry_seconds)
        if not isinstance(decision, Due):
            return float("inf") if decision.at is None else max(0.0, decision.at - now)
        if blocker := self._blocker():
            if self._backoff.may_say(("space", view.name), self.context.settings.sweep_seconds):
                log.warning("%s is due and cannot be built: %s", view.name, blocker)
            return float("inf")  # until the next sweep
        building = Building(self.context, image)
        if self._backoff.start(self.builds, view.name, building.run):
            self._building[view.name] = building
        return self._backoff.left(view.name)

    def _for_us(self, image: Diskimage) -> bool:
        """Whether this builder can build the image; if it cannot, another builder may."""
        if image.stub:
            return False
        reason = peers.cannot_build(self.context, image)
        if reason and self._backoff.may_say(("cannot", image.name), EQUIPMENT_SECONDS):
            log.warning("%s cannot be built here: %s", image.name, reason)
        return reason is None

    def _upload(self, view: ImageView, now: float) -> float:
        context = self.context
        found, at = due_uploads(
            view, context.carriers(view.name), context.builder_id, now, context.settings.retry_seconds
        )
        wait = float("inf") if at is None else max(0.0, at - now)
        for each in found:
            key = (view.name, each.build.id, each.provider)
            busy = sum(1 for other in self.uploads.busy if isinstance(other, tuple) and other[2] == each.provider)
            limit = context.providers[each.provider].upload_workers
            if key in self.uploads.busy or (limit is not None and busy >= limit):
                continue
            if absent := elsewhere(context, view.name, each):
                if self._backoff.may_say(("elsewhere", *key[:2]), EQUIPMENT_SECONDS):
                    log.warning("%s", absent)
                continue
            self._backoff.start(self.uploads, key, Uploading(context, *key).run)
            wait = min(wait, self._backoff.left(key))
        return wait

    # -- counts --

    def _count(self) -> None:
        for name in self._counted - self.cache.images.keys():
            metrics.IMAGE_BUILDS_READY.remove(name)
            metrics.IMAGE_BUILDS_FAILED.remove(name)
        self._counted = set(self.cache.images)
        metrics.BUILDS_BUSY.set(len(self.builds.busy))
        metrics.UPLOADS_BUSY.set(len(self.uploads.busy))
        metrics.QUARANTINED.set(len(self.cache.quarantined))
        for name, view in self.cache.images.items():
            metrics.IMAGE_BUILDS_READY.labels(name).set(len(view.ready()))
            failed = sum(1 for build in view.builds if build.record.state is BuildState.FAILED)
            metrics.IMAGE_BUILDS_FAILED.labels(name).set(failed)

    # -- the end --

    @property
    def drained(self) -> bool:
        """Whether all work has ended, or the time of the wait is over."""
        late = self.context.settings.drain_seconds + ABANDON_SECONDS
        return not any(pool.busy for pool in self._pools()) or self.turns.drained_for(late)

    def _pools(self) -> list[WorkerPool]:
        return [self.builds, self.uploads, *self._keeping.pools()]

    def drain(self, seconds: float) -> None:
        """Work that has not ended after ``drain_seconds`` is ended, and its traces are removed."""
        if seconds >= self.context.settings.drain_seconds:
            self.context.stopping.set()

    def close(self) -> None:
        """End all that is being done, as well as it can be in a few seconds."""
        self.context.stopping.set()
        ends = time.monotonic() + CLOSE_SECONDS
        for pool in self._pools():
            pool.wait(max(0.0, ends - time.monotonic()))
        for uploader in self.context.uploaders.values():
            uploader.close()
