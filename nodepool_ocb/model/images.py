"""The records of images in ZooKeeper: builds, their uploads, and requests of people (seed 004)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from nodepool_ocb.model.ranges import Count, Moment, Times
from nodepool_ocb.model.records import Record


class BuildState(StrEnum):
    """The state of an image's build."""

    BUILDING = "building"  # its builder holds builds/lock and works on it
    READY = "ready"  # every format is on its builder's disk, with checksums
    FAILED = "failed"  # kept long enough to be read, with its log
    ABORTED = "aborted"  # its builder died, or lost its session, while it built; the builder deletes it when it is back
    DELETE = "delete"  # it is to be deleted: its uploads go, then its files, then the record


class UploadState(StrEnum):
    """The state of a build's upload to a provider."""

    UPLOADING = "uploading"  # a builder holds images/lock and sends it
    READY = "ready"  # the provider has it, verified: it may be launched from
    FAILED = "failed"  # kept long enough to be read; tried again after a back-off
    DELETE = "delete"  # it is to be deleted at its provider, then the record


class Build(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``image/<image>/builds/<id>``; the field names are Nodepool's where it has the field."""

    builder: str  # the host name, for people
    builder_id: str  # of the image directory: the same after a restart, on no other host
    filename: str  # of its files, without folder and extension: <image>-<id>
    state: BuildState
    state_time: Moment
    formats: tuple[str, ...] = ()
    checksums: Mapping[str, Mapping[str, str | Count]] = {}  # format → {"md5", "sha256", "size" in bytes}
    removed: tuple[str, ...] = ()  # those of the formats with files that were removed after the upload
    started: Moment = 0.0
    request: Count = 0  # the mzxid of the request-build that stood there when it began; 0 where none did
    reason: str | None = None  # why it failed or was aborted
    tail: str | None = None  # the end of the log of a build that failed, at most 4 KiB
    log: str | None = None  # HOST:FILE of the whole log
    username: str | None = None
    python_path: str | None = None
    shell_type: str | None = None
    metadata: Mapping[str, str] = {}


class Upload(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``builds/<id>/provider/<provider>/images/<id>``."""

    state: UploadState
    state_time: Moment
    format: str
    external_id: str | None = None  # the provider's id for it
    external_name: str | None = None  # our name for it: <image>-<build>-<upload>-<provider>-<key>
    cluster: str = ""  # the id of the cluster in the stamp of the newest attempt
    key: str = ""  # of the newest attempt, drawn by chance: the part of the stamp that no other attempt has
    builder: str | None = None
    attempt: Times = 1  # how often this upload has been tried
    reason: str | None = None
    username: str | None = None
    python_path: str | None = None
    shell_type: str | None = None
    metadata: Mapping[str, str] = {}


class BuildRequest(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``image/<image>/request-build``: a flag, build this image off its schedule."""

    by: str | None = None
    reason: str | None = None
    at: Moment = 0.0


class Pause(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``image/<image>/pause``: a flag, do not build this image (``until`` then, or until the flag goes)."""

    by: str | None = None
    reason: str | None = None
    at: Moment = 0.0
    until: Moment | None = None
