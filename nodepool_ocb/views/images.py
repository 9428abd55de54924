"""Images, builds and uploads: rows, one image with its builds, and the same for tables.

The state that is shown may differ from the record. If no daemon holds the lock, a build that says ``building`` is shown
as aborted and an upload that says ``uploading`` as failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from nodepool_ocb.images import rules
from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.times import age, shown
from nodepool_ocb.views.view import View, Whole

S = TypeVar("S", bound=StrEnum)

NOBODY: Final = (
    "no builder is running: nothing is built or uploaded;"
    " systemctl start nodepool-ocb-builder, or without systemd: nodepool-ocb-builder"
)


def cannot_build(image: str, reason: str) -> str:
    """The sentence for a person that waits for a build that no running builder can make."""
    return f"no running builder can build {image}: {reason}"


# -- as JSON has it --


class UploadCounts(View, frozen=True):
    """The number of uploads, and the number of ready ones."""

    ready: int
    all: int


class ImageRow(View, frozen=True, kw_only=True):
    """An image at a glance."""

    name: str
    build: str | None  # the newest that is ready
    since: float | None  # when it became so
    formats: tuple[str, ...]  # that it has
    builds: Mapping[BuildState, int]  # how many are in which state
    uploads: UploadCounts  # of the newest that is ready
    failures: int  # builds that failed since one was ready
    request: Whole[BuildRequest] | None
    pause: Whole[Pause] | None  # while it holds
    paused_in: str | None  # the configuration file that pauses it
    builder: str | None  # the host of the builder that builds it now


class UploadRow(View, frozen=True, kw_only=True):
    """An upload with its state of now."""

    name: str  # the argument of ``upload delete``
    image: str
    build: str
    provider: str
    upload: str
    record: Upload
    state: UploadState
    since: float
    reason: str | None


class LeakRow(View, frozen=True, kw_only=True):
    """An object at a provider that no record names."""

    name: str  # the argument of ``upload leaks --delete``
    provider: str
    external_id: str
    external_name: str
    image: str
    build: str
    cluster: str  # of its stamp
    whose: str  # ours, or another cluster's
    since: float | None


class BuildRow(View, frozen=True, kw_only=True):
    """A build with its state of now, and its uploads."""

    build: str
    record: Build
    state: BuildState
    since: float
    reason: str | None
    uploads: tuple[UploadRow, ...]


class ImageDocument(View, frozen=True, kw_only=True):
    """One image with its builds."""

    row: ImageRow
    builder: Whole[LockOwner] | None  # that builds it now
    next_attempt: float | None  # after failures
    cannot_build: str | None = None  # why no running builder can build it
    builds: tuple[BuildRow, ...]


class ImageGone(View, frozen=True):
    """An image that is watched and was deleted."""

    name: str
    builds: None = None


class BuildLog(View, frozen=True, kw_only=True):
    """The output of a build."""

    image: str
    build: str
    state: BuildState
    log: str | None  # HOST:FILE
    whole: bool
    output: str


class BuildWait(View, frozen=True, kw_only=True):
    """The result of a wait for a build."""

    outcome: str | None  # ready, failed, paused, withdrawn, deleted or timeout
    image: str
    request: int
    build: BuildRow | None
    changes: tuple[ChangeRow, ...]


def stands(view: ImageView, build: BuildView) -> BuildState:
    """The state that is shown."""
    return rules.state_shown(build, view.holder)


def upload_stands(upload: UploadView) -> UploadState:
    """The state that is shown: an upload without a lock that says ``uploading`` has failed."""
    if upload.record.state is UploadState.UPLOADING and not upload.locked:
        return UploadState.FAILED
    return upload.record.state


def row(view: ImageView, now: float, paused: Mapping[str, str] | None = None) -> ImageRow:
    """The image at a glance; ``paused`` names the file in which images are paused."""
    newest = next(iter(view.ready()), None)
    sent = newest.uploads if newest else ()
    return ImageRow(
        name=view.name,
        build=newest.id if newest else None,
        since=newest.record.state_time if newest else None,
        formats=newest.record.formats if newest else (),
        builds=Counter(stands(view, build) for build in view.builds),
        uploads=UploadCounts(sum(each.record.state is UploadState.READY for each in sent), len(sent)),
        failures=len(rules.failures(view)),
        request=Whole(view.request.record) if view.request else None,
        pause=Whole(view.pause.record) if view.pause and view.pause.on(now) else None,
        paused_in=(paused or {}).get(view.name),
        builder=view.holder.host if view.holder else None,
    )


def document(
    row: ImageRow, view: ImageView, next_attempt: float | None, cannot_build: str | None = None
) -> ImageDocument:
    """The image of the row; ``cannot_build``: why no running builder can build it."""
    return ImageDocument(
        row=row,
        builder=Whole(view.holder) if view.holder else None,
        next_attempt=next_attempt,
        cannot_build=cannot_build,
        builds=tuple(build_row(view, build) for build in view.builds),
    )


def build_row(view: ImageView, build: BuildView) -> BuildRow:
    """A build of the image."""
    state = stands(view, build)
    given_up = f"{build.record.builder} does not work on it any more"
    return BuildRow(
        build=build.id,
        record=build.record,
        state=state,
        since=build.record.state_time,
        reason=build.record.reason if state is build.record.state else given_up,
        uploads=tuple(upload_row(view.name, upload) for upload in build.uploads),
    )


def upload_row(image: str, upload: UploadView) -> UploadRow:
    """An upload of the image."""
    state = upload_stands(upload)
    given_up = f"{upload.record.builder or 'its builder'} does not send it any more"
    return UploadRow(
        name=f"{image} {upload.build} {upload.provider} {upload.id}",
        image=image,
        build=upload.build,
        provider=upload.provider,
        upload=upload.id,
        record=upload.record,
        state=state,
        since=upload.record.state_time,
        reason=upload.record.reason if state is upload.record.state else given_up,
    )


# -- as tables have it --


class ImageWords(View, frozen=True, kw_only=True):
    """An image for a table."""

    name: str
    build: str | None
    since: float | None
    formats: tuple[str, ...]
    builds: str | None  # "1 failed, 2 ready"
    uploads: str | None  # "1/2" are ready
    failures: int
    request: str | None
    pause: str | None
    builder: str | None
    next_attempt: str | msgspec.UnsetType | None = msgspec.UNSET
    cannot_build: str | msgspec.UnsetType = msgspec.UNSET


class BuildWaitWords(View, frozen=True, kw_only=True):
    """The end of a wait for a table. The fields after ``build`` are left out if there is no build."""

    outcome: str | None
    image: str
    request: int
    build: str | None
    state: BuildState | msgspec.UnsetType = msgspec.UNSET
    since: float | msgspec.UnsetType = msgspec.UNSET
    formats: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    builder: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType | None = msgspec.UNSET


def words(row: ImageRow, now: float) -> ImageWords:
    """An image of a list."""
    file = row.paused_in.rpartition("/")[2] if row.paused_in else None
    return _words(row, _asked(row, now), _paused(row, now), file, row.builder)


def about(document: ImageDocument, now: float) -> ImageWords:
    """One image for a table, with the reasons of its request and its pause."""
    row, holder = document.row, document.builder.record if document.builder else None
    asked = _because(_asked(row, now), row.request.record.reason if row.request else None)
    paused = _because(_paused(row, now), row.pause.record.reason if row.pause else None)
    works = f"{holder.host}, pid {holder.pid}: {holder.purpose}" if holder else None
    at = shown(document.next_attempt) if document.next_attempt else None
    cannot = document.cannot_build or msgspec.UNSET
    made = _words(row, asked, paused, row.paused_in, works)
    return msgspec.structs.replace(made, next_attempt=at, cannot_build=cannot)


def _words(row: ImageRow, asked: str | None, paused: str | None, file: str | None, builder: str | None) -> ImageWords:
    return ImageWords(
        name=row.name,
        build=row.build,
        since=row.since,
        formats=row.formats,
        builds=counted(row.builds),
        uploads=f"{row.uploads.ready}/{row.uploads.all}" if row.uploads.all else None,
        failures=row.failures,
        request=asked,
        pause="; ".join(filter(None, (paused, file and f"in {file}"))) or None,
        builder=builder,
    )


def _asked(row: ImageRow, now: float) -> str | None:
    if row.request is None:
        return None
    return f"{row.request.record.by or 'an unknown user'}, {age(now - row.request.record.at)} ago"


def _paused(row: ImageRow, now: float) -> str | None:
    if row.pause is None:
        return None
    until = row.pause.record.until
    left = f", {age(until - now)} left" if until is not None else ""
    return f"{row.pause.record.by or 'an unknown user'}{left}"


def _because(text: str | None, reason: str | None) -> str | None:
    return ": ".join(filter(None, (text, reason))) if text else None


def counted(states: Mapping[S, int]) -> str | None:
    """
    >>> counted({BuildState.READY: 2, BuildState.FAILED: 1})
    '1 failed, 2 ready'
    """
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or None


def uploads_of(builds: Iterable[BuildRow]) -> list[UploadRow]:
    """The uploads of all builds."""
    return [upload for build in builds for upload in build.uploads]


def wait_words(wait: BuildWait) -> BuildWaitWords:
    """The end of a wait for a table."""
    build = wait.build
    made = BuildWaitWords(
        outcome=wait.outcome, image=wait.image, request=wait.request, build=build.build if build else None
    )
    if build is None:
        return made
    return msgspec.structs.replace(
        made,
        state=build.state,
        since=build.since,
        formats=build.record.formats,
        builder=build.record.builder,
        reason=build.reason,
    )
