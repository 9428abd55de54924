"""What the rules say is to be tidied up, done: records marked, uploads and builds removed, files without a record too.

Records go last: while one stands, whoever looks next knows what is still to be removed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from nodepool_ocb import metrics
from nodepool_ocb.errors import Stale
from nodepool_ocb.image import (
    BuildView,
    ImageView,
    MarkBuild,
    MarkUpload,
    RemoveBuild,
    RemoveUpload,
    Step,
    UploadView,
    removable,
)
from nodepool_ocb.model import BuildState, Delete, Set, Upload, UploadState
from nodepool_ocb.providers.provider import Kept, Refused
from nodepool_ocb.store import codec, paths
from nodepool_ocb.store.removal import removal
from nodepool_ocb_builder.shelf import remove_all
from nodepool_ocb_builder.site import Site

log = logging.getLogger(__name__)


def do(site: Site, image: str, step: Step) -> None:
    """One step; where somebody was faster nothing happens. Raises Unavailable."""
    try:
        match step:
            case MarkBuild(build, state, reason):
                _mark_build(site, image, build, state, reason)
            case MarkUpload(upload, state, reason):
                _mark_upload(site, image, upload, state, reason)
            case RemoveUpload(upload):
                _remove_upload(site, image, upload)
            case RemoveBuild(build):
                _remove_build(site, image, build)
    except Stale:
        metrics.STALE.inc()  # it is read again, and decided again


def _mark_build(site: Site, image: str, build: BuildView, state: BuildState, reason: str) -> None:
    log.info("%s-%s: %s → %s: %s", image, build.id, build.record.state, state, reason)
    record = replace(build.record, state=state, state_time=time.time(), reason=reason)
    site.session.commit([Set(paths.build(image, build.id), record, build.version)])


def _mark_upload(site: Site, image: str, upload: UploadView, state: UploadState, reason: str) -> None:
    log.info("%s-%s at %s: %s → %s: %s", image, upload.build, upload.provider, upload.record.state, state, reason)
    record = replace(upload.record, state=state, state_time=time.time(), reason=reason)
    site.session.commit([Set(paths.upload(image, upload.build, upload.provider, upload.id), record, upload.version)])


def _remove_upload(site: Site, image: str, upload: UploadView) -> None:
    path = paths.upload_lock(image, upload.build, upload.provider)
    lock = site.locks.take(path, site.holder(f"delete {image}-{upload.build} at {upload.provider}"))
    if lock is None:
        return
    try:
        _remove_locked(site, image, upload)
    finally:
        site.locks.release(lock)


def _remove_locked(site: Site, image: str, upload: UploadView) -> None:
    """What the record says now that nobody else works on it: it may have learnt meanwhile what the provider calls it."""
    path = paths.upload(image, upload.build, upload.provider, upload.id)
    znode = site.session.get(path)
    if znode is None:
        return
    record = codec.decode(Upload, znode)
    uploader = site.uploaders.get(upload.provider)
    if record.external_id is not None:
        refused = uploader.delete(record.external_id) if uploader else Refused("this builder has no such provider")
        if refused is not None:
            log.warning("%s-%s stays at %s: %s", image, upload.build, upload.provider, refused.reason)
            return
    log.info("%s-%s is deleted at %s", image, upload.build, upload.provider)
    site.session.commit([Delete(path, znode.version)])


def _remove_build(site: Site, image: str, build: BuildView) -> None:
    view = site.look(image)
    found = view.build(build.id) if view else None
    if found is None or found.record.state is not build.record.state or not found.bare:
        return  # it is decided anew on what is there now
    log.info("%s-%s is deleted (%s)", image, build.id, build.record.state)
    if build.record.builder_id == site.builder_id:
        site.shelf.remove(build.record.filename or f"{image}-{build.id}")
    site.session.commit(removal(site.session, paths.build(image, build.id)))


# -- files --


def remove_uploaded(site: Site, image: str, build: BuildView) -> None:
    """Remove the files that ``delete-after-upload`` asks to remove, once every provider has the build."""
    diskimage = site.diskimages.get(image)
    if diskimage is None or diskimage.keep_formats is True:
        return
    formats = removable(build, site.carriers(image), diskimage.keep_formats or ())
    if formats:
        record = replace(build.record, removed=(*build.record.removed, *formats))
        try:
            site.session.commit([Set(paths.build(image, build.id), record, build.version)])
        except Stale:
            return
        for format in formats:
            site.shelf.remove_format(build.record.filename, format)


def remove_orphans(site: Site, views: Mapping[str, ImageView], unread: Iterable[str], working: Iterable[str]) -> None:
    """Remove files and logs that no record names: after a grace time, for a record may be about to be written.

    ``unread`` are the paths of records that cannot be decoded: what they name stays.
    """
    known = {f"{view.name}-{build.id}" for view in views.values() for build in view.builds} | set(working)
    known |= {"-".join(path.split("/")[3:6:2]) for path in unread}
    now = time.time()
    orphans = site.shelf.orphans(known, now - site.settings.orphan_grace_seconds)
    for path in orphans:
        log.info("%s has no record: removed", path)
    remove_all(orphans)
    for path in site.shelf.prune_logs(known, site.nodepool.build_log_retention):
        log.info("%s is an old log: removed", path)


# -- leaks --


class Leaks:
    """What providers have of our cluster and no record names: deleted when it is seen twice."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._suspects: dict[str, set[str]] = {}  # provider → external ids seen once

    def look(self, provider: str) -> None:
        """Compare one provider with the records; blocking, for a thread. Raises Unavailable."""
        site = self._site
        uploader = site.uploaders[provider]
        ours = [kept for kept in uploader.list() if kept.cluster == site.cluster]
        known = _known(site, provider, ours)
        leaked = {kept.external_id for kept in ours if kept.external_id not in known}
        for external_id in sorted(leaked & self._suspects.get(provider, set())):
            log.warning("%s at %s is in no record: deleted", external_id, provider)
            refused = uploader.delete(external_id)
            if refused is None:
                metrics.LEAKS.inc()
        self._suspects[provider] = leaked


def _known(site: Site, provider: str, listed: Iterable[Kept]) -> set[str]:
    """The external ids that records name, or are about to name."""
    known: set[str] = set()
    for image in {kept.image for kept in listed if kept.image}:
        view = site.look(image)
        uploads = [upload for build in (view.builds if view else ()) for upload in build.uploads]
        for upload in uploads:
            if upload.provider == provider and upload.record.external_id:
                known.add(upload.record.external_id)
        under_way = {
            (upload.build, upload.id)
            for upload in uploads
            if upload.provider == provider and upload.record.state is UploadState.UPLOADING
        }
        known |= {kept.external_id for kept in listed if kept.image == image and (kept.build, kept.upload) in under_way}
    return known
