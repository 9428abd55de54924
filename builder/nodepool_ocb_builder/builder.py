"""One turn of the builder: read what changed, decide by the rules (nodepool_ocb.image), begin what is due.

All state here is a cache and can be lost. What takes long is done by crews of threads: builds, uploads, tidying up. The
turn wakes by ZooKeeper's watches, as work ends, and when something falls due; an idle builder asks nothing.
"""

from __future__ import annotations

import logging
import platform
import random
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from nodepool_ocb import metrics
from nodepool_ocb.diskimages import Diskimage
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.image import Due, ImageView, Tidier, Wanted, due, due_uploads, tidy
from nodepool_ocb.model import BuildState, Change, Cluster, Create, Daemon, Delete, Set
from nodepool_ocb.store import codec, paths
from nodepool_ocb.store.images import ImageCache
from nodepool_ocb_builder import space, tidying
from nodepool_ocb_builder.backends import missing
from nodepool_ocb_builder.building import GRACE_SECONDS, Building
from nodepool_ocb_builder.crew import Crew
from nodepool_ocb_builder.site import Site
from nodepool_ocb_builder.uploading import Uploading

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.5  # while ZooKeeper does not answer
CALM_SECONDS: Final = 1.0  # before something is begun again that ended without a trace
EQUIPMENT_SECONDS: Final = 600.0  # between two complaints about a program that is not installed
TIDIERS: Final = 4  # deletions at providers may take long, and must not hold up one another


class Builder:
    """The builder's mind. ``turn`` is to be called whenever ``wake`` is set, or after the seconds that it gave."""

    def __init__(self, site: Site, daemon: Daemon) -> None:
        self.wake = threading.Event()
        self.stop = threading.Event()  # set by a signal: begin nothing more, and end
        self.site, self.daemon = site, daemon
        self.cache = ImageCache(site.session, self.wake.set)
        self.builds = Crew("build", site.settings.build_workers, self.wake.set)
        self.uploads = Crew("upload", site.settings.upload_workers, self.wake.set)
        self.tidiers = Crew("tidy", TIDIERS, self.wake.set)
        self._leaks = tidying.Leaks(site)
        self._building: dict[str, Building] = {}  # by image
        self._calm: dict[Hashable, float] = {}  # monotonic: not to be begun again before
        self._said: dict[Hashable, float] = {}  # monotonic: not to be said again before
        self._session = 0  # the session in which the cache was loaded
        self._living: frozenset[str] = frozenset()
        self._appointments: dict[str, float] = {}  # what → monotonic time when it is due again
        self._draining_since: float | None = None

    # -- the turn --

    def turn(self) -> float:
        """Read, decide, begin; gives the seconds until the next turn is due by itself."""
        session = self.site.session
        if session.dead:
            log.critical("the connection to ZooKeeper is dead for good: ending, to be started again")
            sys.exit(1)
        if self.stop.is_set():
            self._drain()
        if not session.trusted:
            return AGAIN_SECONDS
        try:
            if session.id != self._session:
                self._load()
            elif self._comes("sweep", self.site.settings.sweep_seconds):
                self._sweep()
            else:
                self.cache.refresh()
        except Unavailable as gone:
            log.warning("ZooKeeper: %s", gone)
            return AGAIN_SECONDS
        now = time.time()
        waits = [self._look_at(view, now) for view in self.cache.images.values()]
        self._look_at_disk_and_providers()
        self._count()
        return max(0.05, min([*waits, *self._next_appointments(), self.site.settings.sweep_seconds]))

    def _load(self) -> None:
        """A new session: say that we are there, see that every image is known, read all."""
        session, site = self.site.session, self.site
        began = session.id
        self._register()
        znode = session.get(paths.CLUSTER)
        site.cluster = codec.decode(Cluster, znode).id if znode else ""
        session.ensure(*map(paths.builds, site.diskimages))
        site.locks.sweep()
        self.cache.load()
        self._look_who_lives()
        self._session = began
        self._comes("sweep", site.settings.sweep_seconds)

    def _register(self) -> None:
        """Our znode; one of our own id from a session before is of a process that is no more, for the directory is ours."""
        session, path = self.site.session, paths.daemon("builder", self.site.builder_id)
        session.ensure(paths.daemons("builder"))
        znode = session.get(path)
        if znode is not None and znode.ephemeral_owner == session.id:
            return
        old: list[Change] = [Delete(path, znode.version)] if znode else []
        try:
            session.commit([*old, Create(path, self.daemon, ephemeral=True)])
        except Stale:
            raise Unavailable(f"{path} was changed while we wrote it") from None

    def served_at(self, address: str) -> None:
        """HOST:PORT of our pages; before the first turn."""
        self.daemon = replace(self.daemon, pages=address)

    def idle_about(self, name: str) -> bool:
        """Whether nothing is added to the log of a build any more; on any thread."""
        return all(building.name != name for building in list(self._building.values()) if building.under_way)

    def reconfigured(self) -> None:
        """The site has another configuration: everything is looked at again."""
        self.builds.size = self.site.settings.build_workers
        self.uploads.size = self.site.settings.upload_workers
        self._session = 0
        self.wake.set()

    def _sweep(self) -> None:
        metrics.SWEEPS.inc()
        self.site.locks.sweep()
        self.cache.sweep()
        self._look_who_lives()

    def _look_who_lives(self) -> None:
        self._living = frozenset(self.site.session.children(paths.daemons("builder")) or ())

    # -- one image --

    def _look_at(self, view: ImageView, now: float) -> float:
        """Begin what is due about an image; gives the seconds until something will be."""
        waits = [self._tidy(view, now)]
        if not self.stop.is_set():
            waits += [self._build(view, now), self._upload(view, now)]
        return min(waits)

    def _build(self, view: ImageView, now: float) -> float:
        image = self.site.diskimages.get(view.name)
        if image is None or not self._for_us(image) or view.holder is not None:
            return float("inf")
        decision = due(view, self.site.wanted(image), now, self.site.settings.retry_seconds)
        if not isinstance(decision, Due):
            return float("inf") if decision.at is None else max(0.0, decision.at - now)
        folder = self.site.shelf.folder
        if shortage := space.shortage([folder], self.site.settings.free_bytes):
            if self._may_say(("space", view.name), self.site.settings.sweep_seconds):
                log.warning("%s is due and cannot be built: %s", view.name, shortage)
            return float("inf")  # until the next sweep
        building = Building(self.site, image)
        if self._begin(self.builds, view.name, building.run):
            self._building[view.name] = building
        return self._left(view.name)

    def _for_us(self, image: Diskimage) -> bool:
        settings = self.site.settings
        arch = settings.arch or platform.machine()
        pinned_elsewhere = image.builders and not set(image.builders) & set(settings.labels)
        return not (image.stub or pinned_elsewhere or image.arch not in (None, arch)) and self._equipped(image)

    def _equipped(self, image: Diskimage) -> bool:
        """Whether the backend's programs are installed here; where they are not, another builder may have them."""
        lacking = missing(self.site.backends[image.backend])
        if lacking and self._may_say(("programs", image.name), EQUIPMENT_SECONDS):
            log.warning("%s cannot be built here: %s is not installed", image.name, ", ".join(lacking))
        return not lacking

    def _upload(self, view: ImageView, now: float) -> float:
        site = self.site
        found, at = due_uploads(view, site.carriers(view.name), site.builder_id, now, site.settings.retry_seconds)
        wait = float("inf") if at is None else max(0.0, at - now)
        for each in found:
            key = (view.name, each.build.id, each.provider)
            busy = sum(1 for other in self.uploads.busy if isinstance(other, tuple) and other[2] == each.provider)
            limit = site.providers[each.provider].upload_workers
            if key in self.uploads.busy or (limit is not None and busy >= limit):
                continue
            self._begin(self.uploads, key, Uploading(site, *key).run)
            wait = min(wait, self._left(key))
        return wait

    def _tidy(self, view: ImageView, now: float) -> float:
        site = self.site
        image = site.diskimages.get(view.name)
        building = self._building.get(view.name)
        working = building.id if building and view.name in self.builds.busy else None
        tidier = Tidier(
            builder_id=site.builder_id,
            working=frozenset() if working is None else frozenset({working}),
            configured=image is not None,
            carriers=frozenset(site.carriers(view.name)),
            providers=frozenset(site.uploaders),
            living=self._living,
            keep=(site.wanted(image) if image else Wanted((), 0.0)).keep,
            failed_keep_seconds=site.settings.failed_keep_seconds,
        )
        wait = float("inf")
        for step in tidy(view, tidier, now):
            key = (view.name, repr(step)[:200])
            self._begin(self.tidiers, key, partial(tidying.do, site, view.name, step))
            wait = min(wait, self._left(key))
        for build in view.ready():
            if build.record.builder_id == site.builder_id:
                tidying.remove_uploaded(site, view.name, build)
        return wait

    def _begin(self, crew: Crew, key: Hashable, work: Callable[[], None]) -> bool:
        """Have something done, unless it was begun a moment ago: what ends without a trace must not spin."""
        if self._left(key) < float("inf") or not crew.start(key, work):
            return False
        self._calm[key] = time.monotonic() + CALM_SECONDS
        return True

    def _left(self, key: Hashable) -> float:
        """The seconds until something may be begun again; infinite where nothing is in its way."""
        now = time.monotonic()
        until = self._calm.get(key, 0.0)
        if until <= now:
            self._calm = {other: ends for other, ends in self._calm.items() if ends > now}
            return float("inf")
        return until - now

    def _may_say(self, what: Hashable, every_seconds: float) -> bool:
        """Whether it is time to complain about the same thing again."""
        now = time.monotonic()
        if self._said.get(what, 0.0) > now:
            return False
        self._said[what] = now + every_seconds
        return True

    # -- what has no event --

    def _comes(self, what: str, every_seconds: float) -> bool:
        """Whether an appointment has come; then the next is made."""
        now = time.monotonic()
        if self._appointments.get(what, 0.0) > now:
            return False
        self._appointments[what] = now + every_seconds * random.uniform(0.9, 1.1)
        return True

    def _next_appointments(self) -> list[float]:
        now = time.monotonic()
        return [max(0.0, at - now) for at in self._appointments.values()]

    def _look_at_disk_and_providers(self) -> None:
        if self.stop.is_set():
            return
        settings = self.site.settings
        if self._comes("orphans", settings.cleanup_seconds):
            working = [building.name for image, building in self._building.items() if image in self.builds.busy]
            views, unread = dict(self.cache.images), list(self.cache.quarantined)
            self.tidiers.start("orphans", partial(tidying.remove_orphans, self.site, views, unread, working))
        if self.site.cluster and self._comes("leaks", settings.leak_seconds):
            for provider in self.site.uploaders:
                self.tidiers.start(("leaks", provider), partial(self._leaks.look, provider))

    def _count(self) -> None:
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
        """Whether nothing is being done any more."""
        return not (self.builds.busy or self.uploads.busy or self.tidiers.busy)

    def _drain(self) -> None:
        """Begin nothing more; what has not ended after ``drain_seconds`` is ended, and its traces are removed."""
        if self._draining_since is None:
            self._draining_since = time.monotonic()
            log.info("draining: %d builds, %d uploads", len(self.builds.busy), len(self.uploads.busy))
            self.daemon = replace(self.daemon, state="draining")
            with suppress(Stale, Unavailable):
                path = paths.daemon("builder", self.site.builder_id)
                znode = self.site.session.get(path)
                if znode is not None:
                    self.site.session.commit([Set(path, self.daemon, znode.version)])
        if time.monotonic() - self._draining_since >= self.site.settings.drain_seconds:
            self.site.stopping.set()

    def close(self) -> None:
        """End all that is being done, as well as it can be in a few seconds."""
        self.site.stopping.set()
        for crew in (self.builds, self.uploads, self.tidiers):
            crew.wait(GRACE_SECONDS)
        for uploader in self.site.uploaders.values():
            uploader.close()
