"""Images, their builds and their uploads: when one is due, which ones are kept, and what is to be tidied up. Pure.

Seed 004 and the page "Semantics" rule. What is read of an image is an ``ImageView``; everything here takes views, what the
configuration wants, and ``now``, and returns values. Deciding twice on the same view gives the same, and each step
carries the version of what it was decided on, so that any builder may decide and only one is heard.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from nodepool_ocb.model import Build, BuildRequest, BuildState, Holder, Pause, Upload, UploadState

JITTER: Final = 0.1  # of the rebuild age, at most
LONGEST_BACKOFF: Final = 60.0  # in first back-offs: an hour, where the first is a minute
UPLOAD_ATTEMPTS: Final = 8  # the last of them two hours after the first


# -- what is there --


class UploadView(msgspec.Struct, frozen=True):
    """An upload as it was read."""

    build: str
    provider: str
    id: str
    record: Upload
    version: int
    locked: bool  # somebody holds the lock of this build's uploads to this provider


class BuildView(msgspec.Struct, frozen=True):
    """A build as it was read, with its uploads in order of their ids."""

    id: str
    record: Build
    version: int
    uploads: tuple[UploadView, ...] = ()
    unread: frozenset[str] = frozenset()  # the providers with an upload that cannot be decoded: it stays, and the build

    @property
    def bare(self) -> bool:
        """Whether nothing is known to be uploaded of it."""
        return not self.uploads and not self.unread


class Requested(msgspec.Struct, frozen=True):
    """The flag ``request-build``; ``mzxid`` tells one request from the next."""

    record: BuildRequest
    version: int
    mzxid: int


class Paused(msgspec.Struct, frozen=True):
    """The flag ``pause``."""

    record: Pause
    version: int

    def on(self, now: float) -> bool:
        """Whether it still holds."""
        return self.record.until is None or now < self.record.until


class ImageView(msgspec.Struct, frozen=True):
    """An image as it was read, its builds in order of their ids; ``holder`` has the lock on its builds."""

    name: str
    builds: tuple[BuildView, ...] = ()
    holder: Holder | None = None
    request: Requested | None = None
    pause: Paused | None = None

    def ready(self) -> tuple[BuildView, ...]:
        """The builds that are READY, newest first."""
        return tuple(build for build in reversed(self.builds) if build.record.state is BuildState.READY)

    def build(self, id: str) -> BuildView | None:
        """The build of this id."""
        return next((build for build in self.builds if build.id == id), None)


# -- builds --


class Wanted(msgspec.Struct, frozen=True):
    """What the configuration says of an image."""

    formats: tuple[str, ...]
    rebuild_age_seconds: float
    pause: bool = False
    keep: int = 2


class Due(msgspec.Struct, frozen=True):
    """A build is to begin now, and why."""

    reason: str


class NotDue(msgspec.Struct, frozen=True):
    """No build is to begin now, and why; ``at`` is when that ends by itself, None where something else must change."""

    reason: str
    at: float | None = None


def due(image: ImageView, wanted: Wanted, now: float, retry_seconds: float = 60.0) -> Due | NotDue:
    """Whether a build of the image is to begin; asked before the lock is taken, and again under it."""
    if wanted.pause:
        return NotDue("the configuration pauses it")
    if image.pause is not None and image.pause.on(now):
        return NotDue(_pause_reason(image.pause.record), image.pause.record.until)
    need = _need(image, wanted, now)
    if isinstance(need, NotDue):
        return need
    return _held_back(image, now, retry_seconds) or need


def _pause_reason(pause: Pause) -> str:
    return f"{pause.by or 'somebody'} has paused it" + (f": {pause.reason}" if pause.reason else "")


def _need(image: ImageView, wanted: Wanted, now: float) -> Due | NotDue:
    if image.request is not None:
        by, reason = image.request.record.by, image.request.record.reason
        return Due(f"{by or 'somebody'} requested it" + (f": {reason}" if reason else ""))
    newest = next(iter(image.ready()), None)
    if newest is None:
        return Due("no build is ready")
    missing = sorted(set(wanted.formats) - set(newest.record.formats))
    if missing:
        return Due(f"the newest ready build lacks {', '.join(missing)}")
    at = rebuild_at(image.name, newest, wanted.rebuild_age_seconds)
    if now >= at:
        return Due(f"the newest ready build is older than {wanted.rebuild_age_seconds:.0f} s")
    return NotDue("the newest ready build is young enough", at)


def rebuild_at(image: str, build: BuildView, rebuild_age_seconds: float) -> float:
    """When the build is to be replaced: drawn from its name, so that all builders say the same and images differ."""
    drawn = zlib.crc32(f"{image}/{build.id}".encode()) / 2**32
    return build.record.state_time + rebuild_age_seconds * (1 + JITTER * drawn)


def failures(image: ImageView) -> tuple[BuildView, ...]:
    """The builds that failed since one was ready, oldest first."""
    newest = next(iter(image.ready()), None)
    return tuple(
        build
        for build in image.builds
        if build.record.state is BuildState.FAILED and (newest is None or build.id > newest.id)
    )


def backoff_seconds(failed: int, retry_seconds: float) -> float:
    """How long to wait after so many failures in a row.

    >>> [backoff_seconds(failed, 60.0) / 60 for failed in (1, 2, 3, 7, 5000)]
    [1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return float(retry_seconds * min(2 ** min(failed - 1, 30), LONGEST_BACKOFF))


def _held_back(image: ImageView, now: float, retry_seconds: float) -> NotDue | None:
    """A failing image waits; a request that no attempt has seen yet does not."""
    failed = failures(image)
    if not failed:
        return None
    if image.request is not None and all(build.record.request != image.request.mzxid for build in failed):
        return None
    at = failed[-1].record.state_time + backoff_seconds(len(failed), retry_seconds)
    if now >= at:
        return None
    return NotDue(f"it failed {len(failed)} times in a row", at)


def fulfilled(image: ImageView, build: Build) -> bool:
    """Whether this build, now ready, is what the request asked for: it stood there when the build began."""
    return image.request is not None and image.request.mzxid == build.request


def state_shown(build: BuildView, holder: Holder | None) -> BuildState:
    """A build that nobody works on any more is not building, whatever its record says."""
    if build.record.state is BuildState.BUILDING and holder is None:
        return BuildState.ABORTED
    return build.record.state


# -- uploads --


class Carrier(msgspec.Struct, frozen=True):
    """What a provider wants of an image."""

    format: str
    pause: bool = False


class DueUpload(msgspec.Struct, frozen=True):
    """A build is to be sent to a provider now: as a new upload, or as the next attempt of ``upload``."""

    build: BuildView
    provider: str
    format: str
    upload: UploadView | None = None


def due_uploads(
    image: ImageView, carriers: Mapping[str, Carrier], builder_id: str, now: float, retry_seconds: float
) -> tuple[list[DueUpload], float | None]:
    """What the builder of the newest ready build has to send, and when the next attempt is due, if one waits for that."""
    newest = next(iter(image.ready()), None)
    if newest is None or newest.record.builder_id != builder_id:
        return [], None
    found: list[DueUpload] = []
    waiting: list[float] = []
    on_disk = set(newest.record.formats) - set(newest.record.removed)
    for provider, carrier in carriers.items():
        if carrier.pause or carrier.format not in on_disk or provider in newest.unread:
            continue
        tried = next((upload for upload in reversed(newest.uploads) if upload.provider == provider), None)
        at = _due_at(tried, retry_seconds)
        if at is not None and at <= now:
            found.append(DueUpload(newest, provider, carrier.format, tried))
        elif at is not None:
            waiting.append(at)
    return found, min(waiting, default=None)


def _due_at(tried: UploadView | None, retry_seconds: float) -> float | None:
    """When the next attempt is due, None for never."""
    if tried is None:
        return 0.0
    if not _tried_again(tried.record):
        return None
    return tried.record.state_time + backoff_seconds(tried.record.attempt, retry_seconds)


def _tried_again(upload: Upload) -> bool:
    return upload.state is UploadState.FAILED and upload.attempt < UPLOAD_ATTEMPTS


def removable(build: BuildView, carriers: Mapping[str, Carrier], kept: Iterable[str]) -> tuple[str, ...]:
    """The formats whose files may go: every provider that wants them has them, and nobody asked to keep them."""
    there = {upload.provider for upload in build.uploads if upload.record.state is UploadState.READY}
    if not carriers or any(name not in there for name, carrier in carriers.items() if not carrier.pause):
        return ()
    return tuple(sorted(set(build.record.formats) - set(build.record.removed) - set(kept)))


# -- tidying up --


class MarkBuild(msgspec.Struct, frozen=True):
    """Set the build's state; ``instead`` is the build that makes it superfluous, and must still be as it was."""

    build: BuildView
    state: BuildState
    reason: str
    instead: BuildView | None = None


class MarkUpload(msgspec.Struct, frozen=True):
    """Set the upload's state; ``instead`` is the upload that makes it superfluous, and must still be as it was."""

    upload: UploadView
    state: UploadState
    reason: str
    instead: UploadView | None = None


class RemoveUpload(msgspec.Struct, frozen=True):
    """Delete the upload at its provider, then its record."""

    upload: UploadView


class RemoveBuild(msgspec.Struct, frozen=True):
    """Delete the build's files, where they are ours, then its record and all below it."""

    build: BuildView


Step: TypeAlias = MarkBuild | MarkUpload | RemoveUpload | RemoveBuild


class Tidier(msgspec.Struct, frozen=True):
    """Who tidies up: a builder, and what it knows of an image."""

    builder_id: str
    working: frozenset[str] = frozenset()  # ids of the builds that it works on now
    configured: bool = True  # whether its configuration has the image
    carriers: frozenset[str] = frozenset()  # its providers that are to have the image
    providers: frozenset[str] = frozenset()  # its providers, whatever they carry
    living: frozenset[str] = frozenset()  # the ids of the builders that are there now
    keep: int = 2
    failed_keep_seconds: float = 86400.0


def tidy(image: ImageView, tidier: Tidier, now: float) -> Iterator[Step]:
    """What is to be done about an image's builds and uploads; all of it may be done at once, or any part of it."""
    kept = {build.id for build in image.ready()[: max(tidier.keep, 1)]} if tidier.configured else set()
    kept_uploads = _kept_uploads(image, tidier)
    for build in image.builds:
        yield from _tidy_build(image, build, build.id in kept, tidier, now)
        for upload in build.uploads:
            instead = next((kept for kept in kept_uploads if kept.provider == upload.provider), None)
            yield from _tidy_upload(build, upload, upload in kept_uploads, instead, tidier, now)


def _kept_uploads(image: ImageView, tidier: Tidier) -> list[UploadView]:
    """The newest ready uploads of each provider: where a new build cannot be sent, the old one stays. And those that
    failed and are to be tried again: their record holds the count.
    """
    newest = next(iter(image.ready()), None)
    seen: dict[str, list[UploadView]] = {}
    for build in reversed(image.builds):
        for upload in reversed(build.uploads):
            if upload.record.state is UploadState.READY and build.record.state is not BuildState.DELETE:
                seen.setdefault(upload.provider, []).append(upload)
    kept = [upload for uploads in seen.values() for upload in uploads[: max(tidier.keep, 1)]]
    return kept + [upload for upload in (newest.uploads if newest else ()) if _tried_again(upload.record)]


def _tidy_build(image: ImageView, build: BuildView, kept: bool, tidier: Tidier, now: float) -> Iterator[Step]:
    record, ours = build.record, build.record.builder_id == tidier.builder_id
    expired = now >= record.state_time + tidier.failed_keep_seconds
    gone = expired and record.builder_id not in tidier.living  # its files went with it, or are found when it is back
    match record.state:
        case BuildState.BUILDING if image.holder is None and build.id not in tidier.working:
            yield MarkBuild(build, BuildState.ABORTED, f"{record.builder} lost the lock: it died, or ZooKeeper lost it")
        case BuildState.READY if not kept and build.bare and (ours or tidier.configured):
            if tidier.configured:
                yield MarkBuild(build, BuildState.DELETE, "newer builds are ready", image.ready()[0])
            else:
                yield MarkBuild(build, BuildState.DELETE, "the image is not configured any more")
        case BuildState.ABORTED | BuildState.FAILED | BuildState.DELETE if not build.bare or build.id in tidier.working:
            return  # its uploads go first; what is worked on may be ready yet
        case BuildState.ABORTED | BuildState.DELETE if ours or gone:
            yield RemoveBuild(build)
        case BuildState.FAILED if expired and (ours or gone):
            yield RemoveBuild(build)


def _tidy_upload(
    build: BuildView, upload: UploadView, kept: bool, instead: UploadView | None, tidier: Tidier, now: float
) -> Iterator[Step]:
    record, ours = upload.record, build.record.builder_id == tidier.builder_id
    if upload.locked:
        return  # somebody works on it, and what the provider calls it may not be known yet
    if record.state is UploadState.DELETE:
        if upload.provider in tidier.providers or record.external_id is None:
            yield RemoveUpload(upload)
    elif build.record.state is BuildState.DELETE:
        yield MarkUpload(upload, UploadState.DELETE, "its build is to be deleted")
    elif record.state is UploadState.UPLOADING:
        yield MarkUpload(upload, UploadState.FAILED, f"{record.builder} died while it sent it")
    elif ours and upload.provider in tidier.providers and upload.provider not in tidier.carriers:
        yield MarkUpload(upload, UploadState.DELETE, f"{upload.provider} is not to have this image any more")
    elif record.state is UploadState.READY and not kept and upload.provider in tidier.carriers:
        yield MarkUpload(upload, UploadState.DELETE, "newer uploads are ready", instead)
    elif record.state is UploadState.FAILED and not kept and now >= record.state_time + tidier.failed_keep_seconds:
        yield MarkUpload(upload, UploadState.DELETE, "it failed, and has been kept long enough")
