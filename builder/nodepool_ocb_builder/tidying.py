"""What the rules say is to be tidied up, done: records marked, uploads and builds removed, files without a record too.

Records go last: while one stands, whoever looks next knows what is still to be removed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from nodepool_ocb import metrics
from nodepool_ocb.errors import Stale
from nodepool_ocb.image import BuildView, ImageView, UploadView, removable
from nodepool_ocb.model import Check, Delete, Set, Upload
from nodepool_ocb.providers.provider import Refused
from nodepool_ocb.store import codec, paths
from nodepool_ocb.store.removal import removal
from nodepool_ocb.tidy import MarkBuild, MarkUpload, RemoveBuild, RemoveUpload, Step
from nodepool_ocb_builder.shelf import named, remove_all
from nodepool_ocb_builder.site import Site
from nodepool_ocb_builder.stamping import stamp_of

log = logging.getLogger(__name__)


def do(site: Site, image: str, step: Step) -> None:
    """One step; where somebody was faster nothing happens. Raises Unavailable."""
    try:
        match step:
            case MarkBuild():
                _mark_build(site, image, step)
            case MarkUpload():
                _mark_upload(site, image, step)
            case RemoveUpload(upload):
                _remove_upload(site, image, upload)
            case RemoveBuild(build):
                _remove_build(site, image, build)
    except Stale:
        metrics.STALE.inc()  # it is read again, and decided again


def _mark_build(site: Site, image: str, step: MarkBuild) -> None:
    build, instead = step.build, step.instead
    log.info("%s: %s → %s: %s", named(image, build.id), build.record.state, step.state, step.reason)
    record = replace(build.record, state=step.state, state_time=site.session.now(), reason=step.reason)
    unless = [Check(paths.build(image, instead.id), instead.version)] if instead else []
    site.session.commit([*unless, Set(paths.build(image, build.id), record, build.version)])


def _mark_upload(site: Site, image: str, step: MarkUpload) -> None:
    upload, instead = step.upload, step.instead
    name = f"{named(image, upload.build)} at {upload.provider}"
    log.info("%s: %s → %s: %s", name, upload.record.state, step.state, step.reason)
    record = replace(upload.record, state=step.state, state_time=site.session.now(), reason=step.reason)
    unless = [Check(_path(image, instead), instead.version)] if instead else []
    site.session.commit([*unless, Set(_path(image, upload), record, upload.version)])


def _path(image: str, upload: UploadView) -> str:
    return paths.upload(image, upload.build, upload.provider, upload.id)


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
    path = _path(image, upload)
    znode = site.session.get(path)
    if znode is None:
        return
    record = codec.decode(Upload, znode)
    uploader = site.uploaders.get(upload.provider)
    if record.external_id is not None:
        refused = (
            uploader.delete(record.external_id, stamp_of(image, replace(upload, record=record)))
            if uploader
            else Refused("this builder has no such provider")
        )
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
    name = named(image, build.id)
    faults = site.shelf.remove(name) if build.record.builder_id == site.builder_id else []
    if faults:
        log.warning("%s stays: %s", name, "; ".join(faults))
        return
    log.info("%s is deleted (%s)", name, build.record.state)
    site.session.commit(removal(site.session, paths.build(image, build.id)))


# -- files --


def uploaded(site: Site, image: str, build: BuildView) -> tuple[str, ...]:
    """The formats whose files ``delete-after-upload`` asks to remove now: every provider has the build."""
    diskimage = site.diskimages.get(image)
    if build.record.builder_id != site.builder_id or diskimage is None or diskimage.keep_formats is True:
        return ()
    return removable(build, site.carriers(image), diskimage.keep_formats or ())


def remove_uploaded(site: Site, image: str, build: BuildView, formats: Sequence[str]) -> None:
    """Remove the files of these formats. Raises Stale, Unavailable, or Invalid where a format is none."""
    record = replace(build.record, removed=(*build.record.removed, *formats))
    site.session.commit([Set(paths.build(image, build.id), record, build.version)])
    for format in formats:
        for fault in site.shelf.remove_format(named(image, build.id), format):
            log.warning("%s", fault)


def remove_orphans(site: Site, views: Mapping[str, ImageView], unread: Iterable[str], working: Iterable[str]) -> None:
    """Remove files and logs that no record names: after a grace time, for a record may be about to be written.

    ``unread`` are the paths of records that cannot be decoded: what they name stays.
    """
    known = {named(view.name, build.id) for view in views.values() for build in view.builds} | set(working)
    known |= {named(*path.split("/")[3:6:2]) for path in unread if path.count("/") >= 5}
    now = time.time()  # files bear the times of this host
    for path in site.shelf.orphans(known, now - site.settings.orphan_grace_seconds):
        faults = remove_all([path])
        log.log(
            logging.WARNING if faults else logging.INFO, "%s has no record: %s", path, "; ".join(faults) or "removed"
        )
    for path in site.shelf.prune_logs(known, site.nodepool.build_log_retention):
        log.info("%s is an old log: removed", path)
