"""One build of an image, from the lock to READY or FAILED, on a thread of its own.

The lock is taken without waiting; under it everything is read and decided again. From then on the record says
``building``. If our session is lost meanwhile, the build goes on, and the lock is taken again as soon as possible. Our
build is given up if another builder has begun a newer build, or if our record was deleted or marked. READY is written in
one transaction that checks the lock's contender and the record's version, and removes the request for this build.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.images.rules import BuildView, Due, ImageView, due, fulfilled
from nodepool_ocb.images.states import BuildEvent, build_after, new_build
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Change, Check, Delete, Set
from nodepool_ocb.store.locks import Lock
from nodepool_ocb.store.sequence import create_above
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_builder import checksums, space
from nodepool_ocb_builder.backends.backend import BuildTask
from nodepool_ocb_builder.checksums import Sums
from nodepool_ocb_builder.context import Context, DaemonStopped
from nodepool_ocb_builder.image_directory import named
from nodepool_ocb_builder.sandbox import isolation

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5  # between two looks at the process
LOOK_AGAIN_SECONDS: Final = 2.0  # between two looks at the record
GRACE_SECONDS: Final = 5.0  # that a build has to end by itself when it is stopped


class TakenOver(Exception):
    """Another builder began a newer build, or our record was deleted: this build is of no use any more."""


class Stopped(Exception):
    """The daemon ends, and the build with it."""


class Building:
    """Builds one image, if it is due and no other builder builds it."""

    def __init__(self, context: Context, image: Diskimage) -> None:
        self.context, self.image = context, image
        self.id: str | None = None  # of the build, once it has begun
        self.under_way = True
        self._lock: Lock | None = None
        self._version = 0  # of the record, as we left it
        self._looked = 0.0

    @property
    def name(self) -> str:
        """The name of the build's files."""
        return named(self.image.name, str(self.id))

    @property
    def _path(self) -> str:
        """Of the record."""
        return paths.build(self.image.name, str(self.id))

    def run(self) -> None:
        """Build, or find that there is nothing to do. Raises Unavailable before the build has begun."""
        context = self.context
        try:
            path, purpose = paths.build_lock(self.image.name), f"build {self.image.name}"
            self._lock = context.locks.take(path, context.holder(purpose))
            view = context.look(self.image.name) if self._lock else None
            if view is None:
                return
            decision = due(view, context.wanted(self.image), context.session.now(), context.settings.retry_seconds)
            if isinstance(decision, Due):
                self._build(view, decision.reason)
        finally:
            self.under_way = False
            if self._lock is not None:
                context.locks.release(self._lock)

    def _build(self, view: ImageView, reason: str) -> None:
        self._abort_orphans(view)
        self._begin(view)
        log.info("building %s: %s", self.name, reason)
        began = time.monotonic()
        outcome = "given up"
        try:
            outcome = self._end()
        except (TakenOver, Stopped) as why:
            log.warning("%s is given up: %s", self.name, why)
            self._clear()
            self._forget()
        except DaemonStopped:
            log.warning("%s ends without ZooKeeper; it is tidied up at the next start", self.name)
        metrics.BUILDS.labels(outcome).inc()
        metrics.BUILD_SECONDS.observe(time.monotonic() - began)

    def _end(self) -> str:
        """Do the work, and write the result: "ready" or "failed"."""
        try:
            sums = self._made()
        except (TakenOver, Stopped):
            raise
        except (OcbError, OSError) as failure:
            log.warning("%s failed: %s", self.name, failure)
            reason = str(failure)
        except Exception as fault:  # a backend's: if it were no failure, the build would begin again at once, for ever
            log.exception("%s failed", self.name)
            reason = f"{self.image.backend}: {type(fault).__name__}: {fault}; the log of the builder has more"
        else:
            self.context.write_until_done(lambda: self._write(BuildEvent.SUCCEED, checksums=sums))
            log.info("%s is ready", self.name)
            return "ready"
        self._clear()
        tail = self.context.directory.tail(self.name)
        self.context.write_until_done(lambda: self._write(BuildEvent.FAIL, reason=reason, tail=tail))
        return "failed"

    def _clear(self) -> None:
        """Remove the files; remaining files go with the record, or are found when they have none."""
        for fault in self.context.directory.remove(self.name):
            log.warning("%s: %s", self.name, fault)

    # -- the beginning --

    def _abort_orphans(self, view: ImageView) -> None:
        """Abort each other build that says ``building``: while we hold the lock, no builder works on it.

        Raises Stale if a record was changed meanwhile: it may still say ``building``. The caller reads again.
        """
        for build in view.builds:
            if build.record.state is BuildState.BUILDING and build.id != self.id:
                now, reason = self.context.session.now(), "its builder lost the lock"
                record = build_after(build.record, BuildEvent.ABANDON, now, reason=reason)
                self.context.session.commit([Set(paths.build(view.name, build.id), record, build.version)])

    def _begin(self, view: ImageView) -> None:
        context, image, now = self.context, self.image, self.context.session.now()
        record = new_build(
            BuildEvent.BEGIN,
            now,
            builder=context.host,
            builder_id=context.builder_id,
            filename="",  # names the id, which ZooKeeper is about to give
            formats=image.formats,
            started=now,
            request=view.request.mzxid if view.request else 0,
            username=image.username,
            python_path=image.python_path,
            shell_type=image.shell_type,
            metadata=image.metadata,
        )
        path = self._number(record)
        record = replace(record, filename=self.name, log=f"{context.host}:{context.directory.log(self.name)}")
        try:
            self._version = self._commit(Set(path, record, 0))
        except Stale:  # the lock is lost, or another writer changed the record: no builder would work on it
            # if that fails, the next builder with the lock aborts it
            context.session.commit(removal(context.session, path))
            raise

    def _number(self, record: Build) -> str:
        """Create the record, and gives its path; its number is the first of which nothing lies here.

        Numbers come back where an ensemble was restored from a backup, or rebuilt, and the files of then are still here. Records
        that Nodepool imported have numbers that ZooKeeper is yet to give.
        """
        context, folder = self.context, paths.builds(self.image.name)
        while True:
            try:
                path = context.session.create_next(folder + "/", record)
            except Stale:
                path = create_above(context.session, folder, record, int(self.id or -1))
            self.id = path.rpartition("/")[2]
            if not context.directory.knows(self.name):
                return path
            log.warning("%s has files already, and had no record: the next number is taken", self.name)
            context.session.commit([Delete(path, 0)])

    def _commit(self, change: Set, *more: Change) -> int:
        """Write our record, and the changes beside it, if the lock is ours; returns the record's version."""
        assert self._lock is not None
        stats = self.context.session.commit([Check(self._lock.contender, 0), change, *more])
        stat = stats[1]
        assert stat is not None  # of a Set
        return stat.version

    # -- the work --

    def _made(self) -> Mapping[str, Sums]:
        """Run the backend; gives each format's checksums. Raises OcbError, TakenOver or Stopped."""
        directory, image = self.context.directory, self.image
        work = directory.work(self.name)
        work.mkdir()
        outputs = {format: directory.unfinished(self.name, format) for format in image.formats}
        task = BuildTask(
            image=image,
            build=str(self.id),
            work=work,
            elements_dir=self.context.nodepool.elements_dir,
            outputs=outputs,
            manifest=directory.manifest(self.name),
        )
        command = self.context.backends[image.backend].command(task)
        process = isolation.start(
            command, log=directory.log(self.name), work=work, timeout_seconds=image.build_timeout_seconds
        )
        try:
            while (ended := process.wait(LOOK_SECONDS)) is None:
                self._look_about()
        except BaseException:
            process.stop(GRACE_SECONDS)
            process.wait(2 * GRACE_SECONDS)
            raise
        if ended.reason is not None:
            full = space.exhausted([directory.folder, directory.logs], directory.tail(self.name))
            raise OcbError(f"{ended.reason}: {full}; make room there" if full else f"{ended.reason}; {self._see_log()}")
        return self._shelved(outputs)

    def _see_log(self) -> str:
        return f"see: nodepool-ocb image log {self.image.name} {self.id}"

    def _shelved(self, outputs: Mapping[str, object]) -> Mapping[str, Sums]:
        """Move the built files to their places, with their checksums."""
        directory, sums = self.context.directory, {}
        for format in outputs:
            made = directory.unfinished(self.name, format)
            if not made.is_file() or not made.stat().st_size:
                raise OcbError(f"the backend ended well and made no {format}; {self._see_log()}")
            sums[format] = checksums.write(directory.finish(self.name, format))
        return sums

    def _look_about(self) -> None:
        """Once a second while it is built: is it still ours to build?"""
        if self.context.stopping.is_set():
            raise Stopped("the builder ends")
        now = time.monotonic()
        if now < self._looked + LOOK_AGAIN_SECONDS:
            return
        self._looked = now
        with suppress(OcbError):  # the work goes on; we shall see
            if not self._undisturbed():
                self._own()

    def _undisturbed(self) -> bool:
        """Whether the lock is ours in this session, and the record is unchanged."""
        znode = self.context.session.get(self._path)
        return self._locked() and znode is not None and znode.version == self._version

    def _locked(self) -> bool:
        """Whether our contender exists: it goes with the session, and a person may have deleted it."""
        lock, session = self._lock, self.context.session
        return lock is not None and lock.session == session.id and session.get(lock.contender) is not None

    # -- the record --

    def _write(self, event: BuildEvent, **fields: object) -> None:
        """Our build's end, with the request that it fulfils. Raises TakenOver, Stale or Unavailable."""
        view, build = self._own()
        record = build_after(build.record, event, self.context.session.now(), **fields)
        more: list[Change] = []
        if event is BuildEvent.SUCCEED and view.request is not None and fulfilled(view, record):
            more = [Delete(paths.request_build(view.name), view.request.version)]
        self._commit(Set(paths.build(view.name, build.id), record, build.version), *more)

    def _own(self) -> tuple[ImageView, BuildView]:
        """The image as it is, and our build in it, ``building``, with the lock in our hands.

        Raises TakenOver if it is of no use any more, and Unavailable while that cannot be known.
        """
        context = self.context
        path = paths.build_lock(self.image.name)
        if not self._locked():
            self._lock = context.locks.take(path, context.holder(f"build {self.name}"))
        view = context.look(self.image.name, self._path)
        build = view.build(str(self.id)) if view else None
        if view is None or build is None or build.record.state is BuildState.DELETE:
            raise TakenOver("its record was deleted")
        newer = {other.record.state for other in view.builds if other.age > build.age}
        if BuildState.READY in newer or (self._lock is None and BuildState.BUILDING in newer):
            raise TakenOver("another builder began a newer one")
        if self._lock is None:
            raise Unavailable(f"another client wrote {path}")
        self._abort_orphans(view)
        if build.record.state is not BuildState.BUILDING:  # others thought that we had died
            record = build_after(build.record, BuildEvent.RESUME, context.session.now(), reason=None)
            self._version = self._commit(Set(paths.build(view.name, build.id), record, build.version))
            build = replace(build, record=record, version=self._version)
        self._version = build.version
        return view, build

    def _forget(self) -> None:
        """Delete the record, so that no client waits for it; an unreadable record stays."""

        def write() -> None:
            self.context.look(self.image.name, self._path)  # of our cluster: another may have a build of this name
            self.context.session.commit(removal(self.context.session, self._path))

        with suppress(DaemonStopped):
            self.context.write_until_done(write)
