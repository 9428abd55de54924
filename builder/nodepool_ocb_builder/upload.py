"""One upload of a build to a provider, from the lock to READY or FAILED, on a thread of its own.

The record comes first, then the upload: an object at a provider without a record is a leak, and found (``leaks``). Only
the builder that has a build's files sends them, so it must correct a record that another client marked meanwhile.
"""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid, OutcomeUnknown, Stale
from nodepool_ocb.images.rules import UPLOAD_ATTEMPTS, BuildView, DueUpload, UploadView, due_uploads
from nodepool_ocb.images.states import BuildEvent, UploadEvent, build_after, new_upload, upload_after
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.model.records import Change, Check, Create, Set
from nodepool_ocb.providers.provider import Item, Refused, Sent, external_name, send
from nodepool_ocb.providers.stamp import Stamp, stamp_of
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_builder import checksums, hook
from nodepool_ocb_builder.context import Context, DaemonStopped
from nodepool_ocb_builder.image_directory import ImageDirectory, named

log = logging.getLogger(__name__)

FIRST_ATTEMPT: Final = 1
KEY_BYTES: Final = 6  # of chance in the key of an attempt


class Uploading:
    """Sends one build of an image to one provider, if that is due and no other builder does.

    Made between two turns, so its settings are of one configuration; it keeps them to its end.
    """

    def __init__(self, context: Context, image: str, build: str, provider: str) -> None:
        self.context, self.image, self.build, self.provider = context, image, build, provider
        self._uploader, self._configured = context.uploaders[provider], context.providers[provider]
        self._name = ""  # the name that this attempt gives to its image
        self._meta = next(each.meta for each in self._configured.diskimages if each.name == image)

    def run(self) -> None:
        """Upload, or find that there is nothing to do. Raises Unavailable before the upload has begun."""
        context, path = self.context, paths.upload_lock(self.image, self.build, self.provider)
        if not self._make_room():
            return
        lock = context.locks.take(path, context.holder(f"upload {self.image}-{self.build} to {self.provider}"))
        if lock is None:
            return
        try:
            if due := self._due():
                self._upload(due)
        except DaemonStopped:
            log.warning("the upload of %s-%s to %s ends without ZooKeeper", self.image, self.build, self.provider)
        finally:
            context.locks.release(lock)

    def _make_room(self) -> bool:
        """The znodes that uploads are below, unless the build is gone."""
        session = self.context.session
        room = paths.uploads(self.image, self.build, self.provider)
        wanted = [paths.build_providers(self.image, self.build), room.rpartition("/")[0], room]
        while (build := session.get(paths.build(self.image, self.build))) is not None:
            absent = [path for path, znode in zip(wanted, session.get_many(wanted), strict=True) if znode is None]
            if not absent:
                return True
            with suppress(
                Stale, OutcomeUnknown
            ):  # the build moved on, or its upload elsewhere makes room as well: look again
                session.commit([Check(build.path, build.version), *map(Create, absent)])
        return False

    def _due(self) -> DueUpload | None:
        """Ours to do, still, now that we hold the lock."""
        context = self.context
        view = context.look(self.image)
        if view is None:
            return None
        carriers = context.carriers(self.image)
        due, _ = due_uploads(view, carriers, context.builder_id, context.session.now(), context.settings.retry_seconds)
        found = next((each for each in due if (each.build.id, each.provider) == (self.build, self.provider)), None)
        return None if found is None or elsewhere(context, self.image, found) else found

    def _upload(self, due: DueUpload) -> None:
        began = time.monotonic()
        stamp = self._begin(due)
        log.info("uploading %s-%s to %s", self.image, self.build, self.provider)
        self.context.sending.add(stamp)
        try:
            outcome = self._unread(due) or self._sent(self._item(due, stamp))
            self.context.write_until_done(lambda: self._end(stamp, outcome))
        except Invalid as wrong:
            self._spoiled(stamp.upload, str(wrong))
            return
        finally:
            self.context.sending.discard(stamp)
        metrics.UPLOADS.labels("ready" if isinstance(outcome, Sent) else "failed").inc()
        metrics.UPLOAD_SECONDS.observe(time.monotonic() - began)

    def _begin(self, due: DueUpload) -> Stamp:
        """The record that says ``uploading``, new or of the attempt before; gives the stamp of this attempt."""
        context, build = self.context, due.build.record
        record = new_upload(
            UploadEvent.SEND,
            context.session.now(),
            due.upload.record if due.upload else None,
            format=due.format,
            builder=context.host,
            attempt=due.upload.record.attempt + 1 if due.upload else FIRST_ATTEMPT,
            cluster=context.cluster,
            key=secrets.token_hex(KEY_BYTES),
            username=build.username,
            python_path=build.python_path,
            shell_type=build.shell_type,
            metadata=build.metadata,
        )
        if due.upload is None:
            path = context.session.create_next(paths.uploads(self.image, self.build, self.provider) + "/", record)
            upload, version = path.rpartition("/")[2], 0
        else:
            upload, version = due.upload.id, due.upload.version
        stamp = stamp_of(self.image, UploadView(self.build, self.provider, upload, record, version, locked=True))
        self._name = external_name(self._configured, stamp, record.state_time)
        record = replace(record, external_name=self._name)
        context.session.commit([Set(self._path(upload), record, version)])
        return stamp

    def _unread(self, due: DueUpload) -> Refused | None:
        """The reason why this host cannot read the file now; raises Invalid if the file is lost, or is not the built file."""
        directory = self.context.directory
        try:
            checksums.verify(self._file(due))
        except Invalid:
            if directory.here:
                raise
            return Refused(_not_here(directory))
        except OSError as fault:
            return Refused(f"{fault.filename} cannot be read now: {fault.strerror}")
        return None

    def _file(self, due: DueUpload) -> Path:
        return self.context.directory.file(named(self.image, self.build), due.format)

    def _path(self, upload: str) -> str:
        return paths.upload(self.image, self.build, self.provider, upload)

    def _item(self, due: DueUpload, stamp: Stamp) -> Item:
        context, record = self.context, due.build.record
        sums = record.checksums.get(due.format) or checksums.noted(self._file(due))  # Nodepool's record has none
        meta = record.metadata
        if context.session.tree.foreign:  # its other builders and launchers must know the object, too
            image = context.diskimages.get(self.image)
            meta = {**(meta or (image.metadata if image else {})), **stamp.nodepools}
        return Item(
            file=self._file(due),
            format=due.format,
            stamp=stamp,
            external_name=self._name,
            md5=str(sums.get("md5", "")),
            sha256=str(sums.get("sha256", "")),
            size=int(sums.get("size", 0)),
            meta={**meta, **self._meta},  # the provider's own counts for more
            stop=context.stopping,
            timeout_seconds=self._configured.image_upload_timeout_seconds,
        )

    def _sent(self, item: Item) -> Sent | Refused:
        """Send it, and see that it arrived whole."""
        outcome = send(self._uploader, item)
        if isinstance(outcome, Refused):
            return outcome
        wrong = self._uploader.verify(outcome.external_id, item) or self._judged(outcome.external_id, item)
        if wrong is None:
            return outcome
        self._uploader.delete(outcome.external_id, item.stamp)
        return wrong

    def _judged(self, external_id: str, item: Item) -> Refused | None:
        """The answer of the provider's hook."""
        program = self._configured.post_upload_hook
        return hook.verdict(program, self.provider, external_id, item) if program else None

    def _end(self, stamp: Stamp, outcome: Sent | Refused) -> None:
        """Write the result; an unwanted object is deleted there. Raises Stale or Unavailable."""
        _, found = self._found(stamp.upload)
        if found is None or stamp_of(self.image, found) != stamp:
            if isinstance(outcome, Sent):
                self._uploader.delete(outcome.external_id, stamp)
            return
        now = self.context.session.now()
        if isinstance(outcome, Refused):
            log.warning("%s-%s to %s: %s", self.image, self.build, self.provider, outcome.reason)
            attempt = UPLOAD_ATTEMPTS if outcome.lasting else found.record.attempt
            reason = f"{outcome.reason}; {self._next_step(attempt)}"
            record = upload_after(found.record, UploadEvent.FAIL, now, reason=reason, attempt=attempt)
        else:
            log.info("%s-%s is at %s", self.image, self.build, self.provider)
            record = upload_after(found.record, UploadEvent.SUCCEED, now, reason=None, external_id=outcome.external_id)
        self.context.session.commit([Set(self._path(stamp.upload), record, found.version)])

    def _next_step(self, attempt: int) -> str:
        if attempt < UPLOAD_ATTEMPTS:
            return "the builder tries again"
        return f"once that is mended, to send it again: nodepool-ocb upload delete {self.image} {self.build} {self.provider}"

    def _found(self, upload: str) -> tuple[BuildView | None, UploadView | None]:
        """The build and the upload as they are now. Raises Unavailable, also while one of them cannot be read."""
        view = self.context.look(self.image, paths.build(self.image, self.build), self._path(upload))
        build = view.build(self.build) if view else None
        uploads = build.uploads if build else ()
        return build, next((each for each in uploads if (each.provider, each.id) == (self.provider, upload)), None)

    def _spoiled(self, upload: str, reason: str) -> None:
        """The file is not the built file: the build is not ready any more, and another one becomes due."""
        log.error("%s-%s: %s", self.image, self.build, reason)

        def write() -> None:
            build, found = self._found(upload)
            now = self.context.session.now()
            changes: list[Change] = []
            if found is not None:
                record = upload_after(found.record, UploadEvent.SPOIL, now, reason=reason)
                changes.append(Set(self._path(upload), record, found.version))
            if build is not None and build.record.state is BuildState.READY:
                failed = build_after(build.record, BuildEvent.SPOIL, now, reason=reason)
                changes.append(Set(paths.build(self.image, self.build), failed, build.version))
            self.context.session.commit(changes)

        self.context.write_until_done(write)


def _not_here(directory: ImageDirectory) -> str:
    odd = f"{directory.id_file} is missing or changed; is its file system mounted?"
    return f"{odd} Until then no file in {directory.folder} is missing"


def elsewhere(context: Context, image: str, due: DueUpload) -> str | None:
    """The reason why a build's absent file is not lost: the directory itself is absent, or another builder of our id
    made the file, and may have it.

    None if it is here, or was made here. Two directories have one id if one is a copy, and the copy lacks later builds. So
    only a build that left a trace in this directory, on this host, can have lost its file. In Nodepool's tree no absent file
    is lost: Nodepool removes files after their upload without a note in the record.
    """
    name = named(image, due.build.id)
    file, host = context.directory.file(name, due.format), due.build.record.builder
    if file.exists():
        return None
    if not context.directory.here:
        return _not_here(context.directory)
    if context.session.tree.foreign:
        return f"{file} is not here; to send the image there, have it built again: nodepool-ocb image build {image}"
    if host == context.host and context.directory.knows(name):
        return None
    return (
        f"{file} is not here: {name} was built on {host}, in another directory with the id of this one; bring its files"
        f" here, or have it built again: nodepool-ocb image build {image}"
    )
