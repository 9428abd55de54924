"""Clean-up of an image: builds and uploads that are superfluous, dead, or marked for deletion. Pure.

As in ``nodepool_ocb.images.rules``, each step carries the version of the record that it was decided from. The steps may be
done in any number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.images.rules import BuildView, ImageView, UploadView, tried_again
from nodepool_ocb.images.states import BuildEvent, UploadEvent
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.skew import believed

STUCK_SECONDS: Final = 2.0  # after which an upload that is to be deleted keeps no files any more; most are gone by then


class MarkBuild(msgspec.Struct, frozen=True):
    """Apply the event to the build; ``instead`` is the build that makes it superfluous, and must still be as it was."""

    build: BuildView
    event: BuildEvent
    reason: str
    instead: BuildView | None = None


class MarkUpload(msgspec.Struct, frozen=True):
    """Apply the event to the upload; ``instead`` is the upload that makes it superfluous, and must still be as it was."""

    upload: UploadView
    event: UploadEvent
    reason: str
    instead: UploadView | None = None


class RemoveUpload(msgspec.Struct, frozen=True):
    """Delete the upload at its provider, then its record."""

    upload: UploadView


class RemoveBuild(msgspec.Struct, frozen=True):
    """Delete the build's files, where they are ours, then its record and all below it."""

    build: BuildView


class RemoveFiles(msgspec.Struct, frozen=True):
    """Delete the build's files, which are ours; its record waits for its uploads, which a provider may refuse to delete."""

    build: BuildView


Step: TypeAlias = MarkBuild | MarkUpload | RemoveUpload | RemoveBuild | RemoveFiles


class Tidier(msgspec.Struct, frozen=True):
    """The builder that cleans up, and its knowledge of an image."""

    builder_id: str
    working: frozenset[str] = frozenset()  # ids of the builds that it works on now
    configured: bool = True  # whether its configuration has the image
    carriers: frozenset[str] = frozenset()  # its providers that are to have the image
    providers: frozenset[str] = frozenset()  # its providers, with any images
    living: frozenset[str] = frozenset()  # the ids of the builders that are there now
    keep: int = 2
    failed_keep_seconds: float = 86400.0
    gone: frozenset[str] = frozenset()  # the ids of builders that have not been there for long
    formats: tuple[str, ...] = ()  # in which its configuration wants the image


def tidy(image: ImageView, tidier: Tidier, now: float) -> Iterator[Step]:
    """The steps for an image's builds and uploads; all of them may be done at once, or any part of them."""
    kept_uploads = _kept_uploads(image, tidier)
    for build in image.builds:
        yield from _tidy_build(image, build, tidier, now)
        for upload in build.uploads:
            instead = next((kept for kept in kept_uploads if kept.provider == upload.provider), None)
            yield from _tidy_upload(build, upload, upload in kept_uploads, instead, tidier, now)


def _instead(image: ImageView, build: BuildView, tidier: Tidier) -> BuildView | None:
    """The newest of the builds that make a ready one superfluous; None while it is kept.

    The newest builds are kept, and the newest of those that have the tidier's formats. A build of another builder is kept, unless
    that builder is gone, or ``keep`` newer builds have its formats.
    """
    keep = max(tidier.keep, 1)
    ready, suitable = image.ready(), [each for each in image.ready() if each.has(tidier.formats)]
    if build in ready[:keep] or build in suitable[:keep]:
        return None
    if build.record.builder_id in tidier.gone | {tidier.builder_id}:
        return ready[0]
    newer = [each for each in ready if each.age > build.age and each.has(build.record.formats)]
    return newer[0] if len(newer) >= keep else None


def _kept_uploads(image: ImageView, tidier: Tidier) -> list[UploadView]:
    """The newest ready uploads of each provider: if a new build cannot be sent, the old upload stays.

    Kept are also failed uploads that will be tried again, because no other upload brought the build there. Their record holds the
    count of attempts.
    """
    seen: dict[str, list[UploadView]] = {}
    for build in reversed(image.builds):
        for upload in reversed(build.uploads):
            if upload.record.state is UploadState.READY and build.record.state is not BuildState.DELETE:
                seen.setdefault(upload.provider, []).append(upload)
    kept = [upload for uploads in seen.values() for upload in uploads[: max(tidier.keep, 1)]]
    return kept + [
        upload
        for build in image.ready()
        for upload in build.uploads
        if tried_again(upload.record)
        and build is image.newest([upload.record.format])
        and not build.at(upload.provider)
    ]


def _tidy_build(image: ImageView, build: BuildView, tidier: Tidier, now: float) -> Iterator[Step]:
    record, ours = build.record, build.record.builder_id == tidier.builder_id
    expired = now >= believed(record.state_time, now) + tidier.failed_keep_seconds
    spent = build.spent and all(_stuck(upload, now) for upload in build.uploads)
    gone = expired and record.builder_id not in tidier.living  # its files went with it, or are found when it is back
    match record.state:
        case BuildState.BUILDING if image.holder is None and build.id not in tidier.working:
            yield MarkBuild(build, BuildEvent.ABANDON, f"{record.builder} lost the lock: it died, or ZooKeeper lost it")
        case BuildState.READY if spent and not tidier.configured and ours:
            yield MarkBuild(build, BuildEvent.RETIRE, "the image is not configured any more")
        case BuildState.READY if spent and tidier.configured and (instead := _instead(image, build, tidier)):
            yield MarkBuild(build, BuildEvent.RETIRE, "newer builds are ready", instead)
        case BuildState.DELETE if spent and not build.bare and ours and set(record.formats) - set(record.removed):
            yield RemoveFiles(build)
        case BuildState.ABORTED | BuildState.FAILED | BuildState.DELETE if not build.bare or build.id in tidier.working:
            return  # its uploads go first; a build under way may still become ready
        case BuildState.ABORTED | BuildState.DELETE if ours or gone:
            yield RemoveBuild(build)
        case BuildState.FAILED if expired and (ours or gone):
            yield RemoveBuild(build)


def _stuck(upload: UploadView, now: float) -> bool:
    """Whether its deletion has waited for so long that its provider seems to refuse, or to be gone."""
    return now >= believed(upload.record.state_time, now) + STUCK_SECONDS


def _tidy_upload(
    build: BuildView, upload: UploadView, kept: bool, instead: UploadView | None, tidier: Tidier, now: float
) -> Iterator[Step]:
    record, ours = upload.record, build.record.builder_id == tidier.builder_id
    if upload.locked:
        return  # a builder works on it, and its id at the provider may not be known yet
    if record.state is UploadState.DELETE:
        if upload.provider in tidier.providers or record.external_id is None:
            yield RemoveUpload(upload)
    elif build.record.state is BuildState.DELETE:
        yield MarkUpload(upload, UploadEvent.RETIRE, "its build is to be deleted")
    elif record.state is UploadState.UPLOADING:
        yield MarkUpload(upload, UploadEvent.ABANDON, f"{record.builder or 'its builder'} died while it sent it")
    elif ours and upload.provider in tidier.providers and upload.provider not in tidier.carriers:
        yield MarkUpload(upload, UploadEvent.RETIRE, f"{upload.provider} is not to have this image any more")
    elif record.state is UploadState.READY and not kept and upload.provider in tidier.carriers:
        yield MarkUpload(upload, UploadEvent.RETIRE, "newer uploads are ready", instead)
    elif (
        record.state is UploadState.FAILED
        and not kept
        and now >= believed(record.state_time, now) + tidier.failed_keep_seconds
    ):
        yield MarkUpload(upload, UploadEvent.RETIRE, "it failed, and has been kept long enough")
