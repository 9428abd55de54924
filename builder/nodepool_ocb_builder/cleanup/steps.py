"""The steps of tidying that the rules name: records marked, uploads and builds removed.

Records go last: while one exists, the next look knows the rest to remove. In Nodepool's tree, a record is marked and deleted
under the lock of its own, ``lock`` below the record: Nodepool's builder does the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.images.rules import BuildView, UploadView, removable
from nodepool_ocb.images.states import UploadEvent, build_after, upload_after
from nodepool_ocb.images.tidy import MarkBuild, MarkUpload, RemoveBuild, RemoveFiles, RemoveUpload, Step
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Upload, UploadState
from nodepool_ocb.model.records import Check, Delete, Set
from nodepool_ocb.providers.provider import Refused
from nodepool_ocb.providers.stamp import UNKNOWN_KEY, Stamp, stamp_of
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.locks import Lock
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_builder.context import Context
from nodepool_ocb_builder.image_directory import named

log = logging.getLogger(__name__)

#: The rest below a build when its uploads are gone, and below an upload.
_BARE: Final = re.compile(r"/provider(/[^/]+(/images(/lock)?)?)?|/lock")


def do(context: Context, image: str, step: Step) -> None:
    """One step; if another client was faster, nothing happens. Raises Unavailable."""
    try:
        match step:
            case MarkBuild():
                _mark_build(context, image, step)
            case MarkUpload():
                _mark_upload(context, image, step)
            case RemoveUpload(upload):
                _remove_upload(context, image, upload)
            case RemoveBuild(build):
                _remove_build(context, image, build)
            case RemoveFiles(build):
                _remove_files(context, image, build)
    except Stale:
        metrics.STALE.inc()  # it is read again, and decided again


def _mark_build(context: Context, image: str, step: MarkBuild) -> None:
    build, instead = step.build, step.instead
    record = build_after(build.record, step.event, context.session.now(), reason=step.reason)
    unless = [Check(paths.build(image, instead.id), instead.version)] if instead else []
    path = paths.build(image, build.id)
    with _locked(context, path, f"mark {named(image, build.id)}"):
        context.session.commit([*unless, Set(path, record, build.version)])
    log.info("%s: %s -> %s: %s", named(image, build.id), build.record.state, record.state, step.reason)


def _mark_upload(context: Context, image: str, step: MarkUpload) -> None:
    upload, instead = step.upload, step.instead
    name = f"{named(image, upload.build)} at {upload.provider}"
    record = upload_after(upload.record, step.event, context.session.now(), reason=step.reason)
    if step.event is UploadEvent.ABANDON:
        record = replace(record, external_id=None)  # Nodepool's may have that of an earlier attempt
    unless = [Check(_path(image, instead), instead.version)] if instead else []
    path = _path(image, upload)
    with _locked(context, path, f"mark {name}"):
        context.session.commit([*unless, Set(path, record, upload.version)])
    log.info("%s: %s -> %s: %s", name, upload.record.state, record.state, step.reason)


@contextmanager
def _locked(context: Context, path: str, purpose: str) -> Iterator[Lock | None]:
    """Hold the lock of one record in Nodepool's tree; None in the native layout. Raises Stale if another client holds it."""
    if not context.session.tree.foreign:
        yield None
        return
    lock = context.locks.take(f"{path}/lock", context.holder(purpose))
    if lock is None:
        raise Stale(f"another client has locked {path}: nothing was written; read it again and decide anew", path)
    try:
        yield lock
    finally:
        context.locks.release(lock)


def _path(image: str, upload: UploadView) -> str:
    return paths.upload(image, upload.build, upload.provider, upload.id)


def _remove_upload(context: Context, image: str, upload: UploadView) -> None:
    path = paths.upload_lock(image, upload.build, upload.provider)
    lock = context.locks.take(path, context.holder(f"delete {image}-{upload.build} at {upload.provider}"))
    if lock is None:
        return
    try:
        _remove_locked(context, image, upload)
    finally:
        context.locks.release(lock)


def _remove_locked(context: Context, image: str, upload: UploadView) -> None:
    """The record, read under its lock: it may have got the provider's id meanwhile."""
    path = _path(image, upload)
    znode = context.session.get(path)
    if znode is None:
        return
    record = codec.decode(Upload, znode)
    if record.state is not UploadState.DELETE:
        return  # the upload is wanted again
    uploader = context.uploaders.get(upload.provider)
    if record.external_id is not None:
        refused = (
            uploader.delete(record.external_id, _stamp(context, image, replace(upload, record=record)))
            if uploader
            else Refused("this builder has no such provider")
        )
        if refused is not None:
            log.warning("%s-%s stays at %s: %s", image, upload.build, upload.provider, refused.reason)
            return
    log.info("%s-%s is deleted at %s", image, upload.build, upload.provider)
    with _locked(context, path, f"delete {image}-{upload.build} at {upload.provider}") as own:
        context.session.commit(_bare_removal(context, path, znode.version, own))


def _stamp(context: Context, image: str, upload: UploadView) -> Stamp:
    """The stamp of an upload's object. In Nodepool's tree the record may lack the key of the attempt."""
    stamp = stamp_of(image, upload)
    if stamp.key or not context.session.tree.foreign:
        return stamp
    return replace(stamp, cluster=context.cluster, key=UNKNOWN_KEY)


def _as_decided(context: Context, image: str, build: BuildView) -> BuildView | None:
    """The build as it is now, with its uploads; None where its record is another."""
    view = context.look(image)
    found = view.build(build.id) if view else None
    return found if found is not None and found.version == build.version else None


def _remove_build(context: Context, image: str, build: BuildView) -> None:
    found = _as_decided(context, image, build)
    if found is None or not found.bare:
        return  # it is decided anew, by its present state
    name = named(image, build.id)
    ours = build.record.builder_id == context.builder_id and build.record.filename  # none: it was not to have files yet
    faults = context.directory.remove(name) if ours else []
    if faults:
        log.warning("%s stays: %s", name, "; ".join(faults))
        return
    if ours:
        _prune_logs(context, image, name)
    path = paths.build(image, build.id)
    with _locked(context, path, f"delete {name}") as own:
        context.session.commit(_bare_removal(context, path, build.version, own))
    log.info("%s is deleted (%s)", name, build.record.state)


def _prune_logs(context: Context, image: str, name: str) -> None:
    """Remove the logs of an image that are too old when ``name`` has no record any more."""
    known = {named(image, id) for id in context.session.children(paths.builds(image)) or ()} - {name}
    context.directory.prune_logs(known, context.nodepool.build_log_retention, image)


def _remove_files(context: Context, image: str, build: BuildView) -> None:
    found = _as_decided(context, image, build)
    if found is None or not found.spent:
        return  # it is decided anew, by its present state
    name = named(image, build.id)
    if faults := context.directory.remove(name):
        log.warning("%s: files stay: %s", name, "; ".join(faults))
        return
    record = replace(found.record, removed=found.record.formats)
    context.session.commit([Set(paths.build(image, build.id), record, found.version)])
    log.info("%s: its files are removed; its record waits for its uploads to be deleted", name)


def _bare_removal(context: Context, path: str, version: int, own: Lock | None) -> list[Delete]:
    """The deletions of a record at this version and of the empty znodes below it, our contender of its lock among them.

    Raises Stale if one is not empty: an upload began meanwhile, or its lock is held.
    """
    below = [change for change in removal(context.session, path) if change.path != path]
    for change in below:
        if _BARE.fullmatch(change.path.removeprefix(path)) is None and (own is None or change.path != own.contender):
            raise Stale(f"{change.path} came meanwhile: nothing was deleted", change.path)
    return [*below, Delete(path, version)]


# -- files --


def uploaded(context: Context, image: str, build: BuildView) -> tuple[str, ...]:
    """The formats with files that ``delete-after-upload`` removes now: every provider has the build."""
    diskimage = context.diskimages.get(image)
    if build.record.builder_id != context.builder_id or diskimage is None or diskimage.keep_formats is True:
        return ()
    return removable(build, context.carriers(image), diskimage.keep_formats or ())


def remove_uploaded(context: Context, image: str, build: BuildView, formats: Sequence[str]) -> None:
    """Remove the files of these formats. Raises Stale, Unavailable, or Invalid where a format is none."""
    record = replace(build.record, removed=(*build.record.removed, *formats))
    still = [
        Check(_path(image, each), each.version) for each in build.uploads if each.record.state is UploadState.READY
    ]
    context.session.commit([*still, Set(paths.build(image, build.id), record, build.version)])
    for format in formats:
        for fault in context.directory.remove_format(named(image, build.id), format):
            log.warning("%s", fault)
