"""Images, their builds and their uploads: when one is due. Pure.

The rules are in seed 004 and the page "Semantics". The records of an image are an ``ImageView``. The functions here take
views, the configuration and ``now``, and return values. The same view gives the same decision. Each step carries the version
of the record that it was decided from. So any builder may decide, and one of them succeeds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.model.skew import believed

SPREAD: Final = 0.1  # of the rebuild age, at most
LONGEST_BACKOFF: Final = 60.0  # in first back-offs: an hour, where the first is a minute
UPLOAD_ATTEMPTS: Final = 8  # the last of them two hours after the first


# -- views --


class UploadView(msgspec.Struct, frozen=True):
    """An upload as it was read."""

    build: str
    provider: str
    id: str
    record: Upload
    version: int
    locked: bool  # a session holds the lock of this build's uploads to this provider


class BuildView(msgspec.Struct, frozen=True):
    """A build as it was read, with its uploads in order of their ids."""

    id: str
    record: Build
    version: int
    uploads: tuple[UploadView, ...] = ()
    unread: frozenset[str] = frozenset()  # the providers with an upload that cannot be decoded: it stays, and the build
    moment: float = 0.0  # the time of its state, where the order of ids is not that of builds (Nodepool's tree)

    @property
    def bare(self) -> bool:
        """Whether nothing is known to be uploaded of it."""
        return not self.uploads and not self.unread

    @property
    def spent(self) -> bool:
        """Whether all its uploads are to be deleted, and none of them is locked."""
        return not self.unread and all(
            each.record.state is UploadState.DELETE and not each.locked for each in self.uploads
        )

    @property
    def age(self) -> tuple[float, str]:
        """Its place in the order of builds: an older one comes first."""
        return self.moment, self.id

    def has(self, formats: Iterable[str]) -> bool:
        """Whether it was made in all of these formats."""
        return set(formats) <= set(self.record.formats)

    def at(self, provider: str) -> bool:
        """Whether it is READY at a provider."""
        return any(each.provider == provider and each.record.state is UploadState.READY for each in self.uploads)


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
    """An image as it was read, its builds in their order, the oldest first; ``holder`` has the lock on its builds."""

    name: str
    builds: tuple[BuildView, ...] = ()
    holder: LockOwner | None = None
    request: Requested | None = None
    pause: Paused | None = None

    def ready(self) -> tuple[BuildView, ...]:
        """The builds that are READY, newest first."""
        return tuple(build for build in reversed(self.builds) if build.record.state is BuildState.READY)

    def newest(self, formats: Iterable[str] = ()) -> BuildView | None:
        """The newest build that is READY in all of these formats."""
        return next((build for build in self.ready() if build.has(formats)), None)

    def build(self, id: str) -> BuildView | None:
        """The build of this id."""
        return next((build for build in self.builds if build.id == id), None)


# -- builds --


class Carrier(msgspec.Struct, frozen=True):
    """A provider that is to have an image, with the format that it takes."""

    format: str
    pause: bool = False


class ImagePolicy(msgspec.Struct, frozen=True):
    """The configuration of an image, and the builders that cannot be expected to send their builds."""

    formats: tuple[str, ...]
    rebuild_age_seconds: float
    pause: bool = False
    keep: int = 2
    carriers: Mapping[str, Carrier] = {}  # the providers that are to have it
    gone: frozenset[str] = frozenset()  # the ids of builders that have not been there for long
    builder_id: str = ""  # the builder that decides
    rebuild_spread: float = SPREAD  # the share of the rebuild age that a builder adds at most


class Due(msgspec.Struct, frozen=True):
    """A build begins now, with the reason."""

    reason: str


class NotDue(msgspec.Struct, frozen=True):
    """No build begins now, with the reason; ``at`` is the time when that ends, None if another change must come first."""

    reason: str
    at: float | None = None


def due(image: ImageView, wanted: ImagePolicy, now: float, retry_seconds: float = 60.0) -> Due | NotDue:
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
    return f"{pause.by or 'an unknown user'} has paused it" + (f": {pause.reason}" if pause.reason else "")


def _need(image: ImageView, wanted: ImagePolicy, now: float) -> Due | NotDue:
    if image.request is not None:
        by, reason = image.request.record.by, image.request.record.reason
        return Due(f"{by or 'an unknown user'} requested it" + (f": {reason}" if reason else ""))
    newest = image.newest(wanted.formats)
    if newest is None:
        return Due(_lack(image, wanted.formats))
    if newest.record.builder_id in wanted.gone and _unserved(newest, wanted.carriers):
        return Due(f"{newest.record.builder}, which has the newest ready build, is gone")
    at = rebuild_at(image.name, newest, wanted, now)
    if now >= at:
        return Due(f"the newest ready build is older than {wanted.rebuild_age_seconds:.0f} s")
    return NotDue("the newest ready build is young enough", at)


def _lack(image: ImageView, formats: Iterable[str]) -> str:
    """The reason for a build: none is ready, or the newest ready one lacks these formats.

    Builders with different formats judge by different builds. So the build of one neither is missing to the other, nor replaces
    the other's build.
    """
    newest = image.newest()
    if newest is None:
        return "no build is ready"
    return f"the newest ready build lacks {', '.join(sorted(set(formats) - set(newest.record.formats))) or 'nothing'}"


def _unserved(build: BuildView, carriers: Mapping[str, Carrier]) -> bool:
    """Whether the files of a build are still needed: no provider takes them, or one that is not paused does not have it."""
    return not carriers or any(not carrier.pause and not build.at(name) for name, carrier in carriers.items())


def rebuild_at(image: str, build: BuildView, wanted: ImagePolicy, now: float) -> float:
    """When a builder replaces the build, in seconds since 1970.

    Part of the time is drawn from the names of builder, image and build. So the builds of many images, or of many builders, do
    not begin at the same time, unless ``rebuild_spread`` is 0.
    """
    drawn = zlib.crc32(f"{wanted.builder_id}/{image}/{build.id}".encode()) / 2**32
    return believed(build.record.state_time, now) + wanted.rebuild_age_seconds * (1 + wanted.rebuild_spread * drawn)


def failures(image: ImageView) -> tuple[BuildView, ...]:
    """The builds that failed since one was ready, oldest first."""
    newest = next(iter(image.ready()), None)
    return tuple(
        build
        for build in image.builds
        if build.record.state is BuildState.FAILED and (newest is None or build.age > newest.age)
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
    at = believed(failed[-1].record.state_time, now) + backoff_seconds(len(failed), retry_seconds)
    if now >= at:
        return None
    return NotDue(f"it failed {counted(len(failed), 'time')} in a row", at)


def fulfilled(image: ImageView, build: Build) -> bool:
    """Whether this build, now ready, fulfils the request: the request existed when the build began."""
    return image.request is not None and image.request.mzxid == build.request


def state_shown(build: BuildView, holder: LockOwner | None) -> BuildState:
    """The state for people: a build in ``building`` without a lock holder is shown as ABORTED."""
    if build.record.state is BuildState.BUILDING and holder is None:
        return BuildState.ABORTED
    return build.record.state


# -- uploads --


class DueUpload(msgspec.Struct, frozen=True):
    """A build is to be sent to a provider now: as a new upload, or as the next attempt of ``upload``."""

    build: BuildView
    provider: str
    format: str
    upload: UploadView | None = None


def due_uploads(
    image: ImageView, carriers: Mapping[str, Carrier], builder_id: str, now: float, retry_seconds: float
) -> tuple[list[DueUpload], float | None]:
    """The uploads that a builder has to send now, and the earliest time of a later attempt, if one waits.

    A provider gets the newest ready build that has its format, from that build's builder, and nothing older than it has.
    """
    found: list[DueUpload] = []
    waiting: list[float] = []
    for provider, carrier in carriers.items():
        build = image.newest([carrier.format])
        if (
            build is None
            or carrier.pause
            or build.at(provider)
            or not _sendable(image, build, provider, carrier.format, builder_id)
        ):
            continue
        tried = next((upload for upload in reversed(build.uploads) if upload.provider == provider), None)
        at = _due_at(tried, now, retry_seconds)
        if at is not None and at <= now:
            found.append(DueUpload(build, provider, carrier.format, tried))
        elif at is not None:
            waiting.append(at)
    return found, min(waiting, default=None)


def _sendable(image: ImageView, build: BuildView, provider: str, format: str, builder_id: str) -> bool:
    """Whether this builder has the file, and nothing newer is there."""
    ours = build.record.builder_id == builder_id and format not in build.record.removed
    newer = any(other.age > build.age and other.at(provider) for other in image.builds)
    return ours and not newer and provider not in build.unread


def _due_at(tried: UploadView | None, now: float, retry_seconds: float) -> float | None:
    """When the next attempt is due, None for never."""
    if tried is None:
        return 0.0
    if not tried_again(tried.record):
        return None
    return believed(tried.record.state_time, now) + backoff_seconds(tried.record.attempt, retry_seconds)


def tried_again(upload: Upload) -> bool:
    """Whether there will be another attempt."""
    return upload.state is UploadState.FAILED and upload.attempt < UPLOAD_ATTEMPTS


def removable(build: BuildView, carriers: Mapping[str, Carrier], kept: Iterable[str]) -> tuple[str, ...]:
    """The formats with files that may be deleted: not in ``kept``, and every unpaused provider that takes one has the image.

    A format that no provider takes goes when no unpaused provider lacks the image. Without providers no format goes.
    """
    there = {upload.provider for upload in build.uploads if upload.record.state is UploadState.READY}
    taken = {carrier.format for carrier in carriers.values()}
    awaited = {carrier.format for name, carrier in carriers.items() if name not in there and not carrier.pause}
    gone = taken - awaited if awaited else set(build.record.formats) if carriers else set()
    return tuple(sorted((gone & set(build.record.formats)) - set(build.record.removed) - set(kept)))
