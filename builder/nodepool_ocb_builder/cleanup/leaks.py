"""Leaks: objects of our cluster at a provider that no record names. They are deleted.

A provider is searched for objects that bear its own name, since two providers may be one cloud. A record that cannot be
decoded may name any object of its build. Those objects stay.

An attempt of *this* builder that this process does not make now is over: the process that made it held the images-dir, and
is dead. Its object is deleted at the first look. An attempt of *another* builder may still be going on without a session,
for as long as an upload to its provider may take. Its object is deleted when it is seen twice, and not before that time.
If that builder comes back even later, the record does not know the attempt any more, and never becomes ``ready``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.images.rules import UploadView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import UploadState
from nodepool_ocb.model.records import Set
from nodepool_ocb.providers.provider import Kept, Uploader
from nodepool_ocb.providers.stamp import Stamp, stamp_of
from nodepool_ocb.store import images
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_builder.context import Context

log = logging.getLogger(__name__)


class Leaks:
    """Remembers the objects that were seen once, with the time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._suspects: dict[str, dict[str, float]] = {}  # provider → external id → monotonic time of the first look

    def look(self, provider: str) -> None:
        """Compare one provider with the records; blocking, for a thread. Raises Unavailable."""
        context = self._context
        uploader, settings = context.uploaders.get(provider), context.providers.get(provider)
        if uploader is None or settings is None:
            return  # it is configured no more
        ours = [kept for kept in uploader.list() if kept.stamp.belongs_to(context.cluster, provider)]
        sending = frozenset(context.sending)  # before the records: an attempt that ended since has written its record
        records = _Records(context, ours, sending)
        for kept in list(ours):
            if records.abandoned(kept):
                ours.remove(kept)
                self._remove(uploader, kept)
        now, before = time.monotonic(), self._suspects.get(provider, {})
        suspects = {kept.external_id: before.get(kept.external_id, now) for kept in ours if not records.know(kept)}
        for kept in ours:
            wait = settings.image_upload_timeout_seconds if records.may_be_going_on(kept) else 0.0
            if kept.external_id in before.keys() & suspects.keys() and now >= suspects[kept.external_id] + wait:
                self._delete(uploader, kept, records)
        self._suspects[provider] = suspects

    @staticmethod
    def _delete(uploader: Uploader, kept: Kept, records: _Records) -> None:
        try:
            records.disown(kept.stamp)
        except Stale:
            metrics.STALE.inc()  # its builder is back: the next look knows more
            return
        Leaks._remove(uploader, kept)

    @staticmethod
    def _remove(uploader: Uploader, kept: Kept) -> None:
        log.warning("%s at %s is in no record: deleted", kept.external_id, kept.stamp.provider)
        if uploader.delete(kept.external_id, kept.stamp) is None:
            metrics.LEAKS.inc()


class _Records:
    """The records about the objects that a provider listed; read after the list."""

    def __init__(self, context: Context, listed: Iterable[Kept], sending: Collection[Stamp]) -> None:
        self._session, self._sending = context.session, sending
        self._own: set[str] = set()  # the paths of uploads of builds that this builder made
        self._unread: dict[str, str] = {}
        context.sync()
        named = {kept.stamp.image for kept in listed} & {*images.names(context.session)}
        views = images.read(context.session, named, self._unread)
        self._uploads: dict[Stamp, UploadView] = {}  # by the stamps that their newest attempts make
        self._paths: set[str] = set()
        self._external_ids: set[str] = set()
        for view in views.values():
            for build in view.builds:
                for upload in build.uploads:
                    self._learn(view.name, upload, own=build.record.builder_id == context.builder_id)

    def _learn(self, image: str, upload: UploadView, own: bool) -> None:
        stamp = stamp_of(image, upload)
        if own:
            self._own.add(_path(stamp))
        self._uploads[stamp] = upload
        self._paths.add(_path(stamp))
        self._external_ids |= {upload.record.external_id or ""}

    def know(self, kept: Kept) -> bool:
        """Whether a record names it, or is about to, or may do so."""
        upload = self._uploads.get(kept.stamp)
        sending = upload is not None and upload.record.state is UploadState.UPLOADING
        return sending or kept.external_id in self._external_ids or self._may_be_named(kept.stamp)

    def abandoned(self, kept: Kept) -> bool:
        """Whether an earlier process of this builder made it, and no record will ever name it."""
        if kept.stamp in self._sending or kept.external_id in self._external_ids:
            return False
        return _path(kept.stamp) in self._own and not self._may_be_named(kept.stamp)

    def may_be_going_on(self, kept: Kept) -> bool:
        """Whether its upload has a record, which thinks that this attempt failed, or knows a newer one."""
        return _path(kept.stamp) in self._paths

    def disown(self, stamp: Stamp) -> None:
        """Let the record forget the attempt that makes this, unless that has ended: its builder then finds another stamp.

        Raises Stale where the record has moved on, or Unavailable.
        """
        upload = self._uploads.get(stamp)
        if upload is not None and upload.record.external_id is None:
            self._session.commit([Set(_path(stamp), replace(upload.record, key=""), upload.version)])

    def _may_be_named(self, stamp: Stamp) -> bool:
        build, uploads = paths.build(stamp.image, stamp.build), paths.uploads(stamp.image, stamp.build, stamp.provider)
        return any(path == build or path.startswith(f"{uploads}/") for path in self._unread)


def _path(stamp: Stamp) -> str:
    return paths.upload(stamp.image, stamp.build, stamp.provider, stamp.upload)
