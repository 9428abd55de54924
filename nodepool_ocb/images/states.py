"""The state machines of builds and uploads: two tables, and the functions that apply them.

A build:

- BEGIN makes the record; SUCCEED or FAIL ends the work. The builder holds the lock of the image's builds for both.
- ABANDON is written by any builder: the build is in ``building``, and its builder has lost the lock. That builder may get the
  lock back. If no newer build is ready then, RESUME returns the build to ``building``, with the time of its state. RESUME also
  follows an end with a lost answer from ZooKeeper; the builder then writes the same end again.
- SPOIL: a file is not the file that was built. The build is not ready, and another one becomes due.
- RETIRE follows from the rules in tidy.py, DELETE from a person. Both lead to ``delete``, and no event leads out of it: the
  uploads are deleted first, then the files, then the record.

An upload:

- SEND makes the record, or begins the next attempt of an upload that failed. SUCCEED or FAIL ends the attempt.
- ABANDON is written by any builder: the upload is in ``uploading``, and its lock is free. If that attempt ends nevertheless, its
  builder writes the end.
- An upload in ``delete`` stays there. If its attempt ends, the record gets the id that the provider gave to the image, so that a
  builder can delete the image. The time of the state stays.
- RETIRE, DELETE and SPOIL lead to ``delete``, as with builds.

``image import`` makes records by IMPORT_READY and IMPORT_FAILED from a document of Nodepool. From a document of ``image export``
it writes whole records, in any state but ``building``, ``aborted`` and ``uploading``. Pure: the time is an argument.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.statemachines import StateMachine


class BuildEvent(StrEnum):
    """The events of a build."""

    BEGIN = "BEGIN"  # a builder begins to build
    SUCCEED = "SUCCEED"  # every format is on the disk, with checksums
    FAIL = "FAIL"  # the backend failed, or a format is missing
    ABANDON = "ABANDON"  # the lock is free: the builder died, or lost its session
    RESUME = "RESUME"  # the builder holds the lock again and goes on
    SPOIL = "SPOIL"  # a file that is to be uploaded differs from its checksum, or is lost
    RETIRE = "RETIRE"  # newer builds are ready, or the configuration has the image no more
    DELETE = "DELETE"  # a person asks for its deletion
    IMPORT_READY = "IMPORT_READY"  # a document of Nodepool has it as ready
    IMPORT_FAILED = "IMPORT_FAILED"  # a document of Nodepool has it as failed


class UploadEvent(StrEnum):
    """The events of an upload."""

    SEND = "SEND"  # a builder begins an attempt to send it
    SUCCEED = "SUCCEED"  # the provider has it, verified
    FAIL = "FAIL"  # the provider refused it, or the verification failed
    ABANDON = "ABANDON"  # the lock is free: its builder died while it sent the image
    SPOIL = "SPOIL"  # the file of its build differs from its checksum, or is lost
    RETIRE = "RETIRE"  # its build is deleted, newer ones are ready, its provider drops it, or it failed long ago
    DELETE = "DELETE"  # a person asks for its deletion
    IMPORT_READY = "IMPORT_READY"  # a document of Nodepool has it as ready


BUILDS: Final = StateMachine(
    "a build",
    BuildState,
    BuildEvent,
    {
        (None, BuildEvent.BEGIN): BuildState.BUILDING,
        (None, BuildEvent.IMPORT_READY): BuildState.READY,
        (None, BuildEvent.IMPORT_FAILED): BuildState.FAILED,
        (BuildState.BUILDING, BuildEvent.SUCCEED): BuildState.READY,
        (BuildState.BUILDING, BuildEvent.FAIL): BuildState.FAILED,
        (BuildState.BUILDING, BuildEvent.ABANDON): BuildState.ABORTED,
        (BuildState.ABORTED, BuildEvent.RESUME): BuildState.BUILDING,
        (BuildState.READY, BuildEvent.RESUME): BuildState.BUILDING,  # the answer to its end was lost
        (BuildState.FAILED, BuildEvent.RESUME): BuildState.BUILDING,  # the same
        (BuildState.READY, BuildEvent.SPOIL): BuildState.FAILED,
        (BuildState.READY, BuildEvent.RETIRE): BuildState.DELETE,
        (BuildState.BUILDING, BuildEvent.DELETE): BuildState.DELETE,  # its builder sees that, and ends its work
        (BuildState.READY, BuildEvent.DELETE): BuildState.DELETE,
        (BuildState.FAILED, BuildEvent.DELETE): BuildState.DELETE,
        (BuildState.ABORTED, BuildEvent.DELETE): BuildState.DELETE,
    },
)

UPLOADS: Final = StateMachine(
    "an upload",
    UploadState,
    UploadEvent,
    {
        (None, UploadEvent.SEND): UploadState.UPLOADING,
        (None, UploadEvent.IMPORT_READY): UploadState.READY,
        (UploadState.FAILED, UploadEvent.SEND): UploadState.UPLOADING,  # the next attempt
        (UploadState.UPLOADING, UploadEvent.SUCCEED): UploadState.READY,
        (UploadState.READY, UploadEvent.SUCCEED): UploadState.READY,  # the answer to its end was lost
        (UploadState.FAILED, UploadEvent.SUCCEED): UploadState.READY,  # it was abandoned meanwhile
        (UploadState.DELETE, UploadEvent.SUCCEED): UploadState.DELETE,  # its deletion was asked for meanwhile
        (UploadState.UPLOADING, UploadEvent.FAIL): UploadState.FAILED,
        (UploadState.FAILED, UploadEvent.FAIL): UploadState.FAILED,  # abandoned meanwhile, or the answer was lost
        (UploadState.DELETE, UploadEvent.FAIL): UploadState.DELETE,  # its deletion was asked for meanwhile
        (UploadState.UPLOADING, UploadEvent.ABANDON): UploadState.FAILED,
        (UploadState.UPLOADING, UploadEvent.SPOIL): UploadState.DELETE,
        (UploadState.READY, UploadEvent.SPOIL): UploadState.DELETE,
        (UploadState.FAILED, UploadEvent.SPOIL): UploadState.DELETE,
        (UploadState.DELETE, UploadEvent.SPOIL): UploadState.DELETE,  # its deletion was asked for meanwhile
        (UploadState.UPLOADING, UploadEvent.RETIRE): UploadState.DELETE,  # its build goes, and its lock is free
        (UploadState.READY, UploadEvent.RETIRE): UploadState.DELETE,
        (UploadState.FAILED, UploadEvent.RETIRE): UploadState.DELETE,
        (UploadState.UPLOADING, UploadEvent.DELETE): UploadState.DELETE,  # its lock is free
        (UploadState.READY, UploadEvent.DELETE): UploadState.DELETE,
        (UploadState.FAILED, UploadEvent.DELETE): UploadState.DELETE,
    },
)

#: The ends of an attempt.
_ENDS: Final = frozenset({UploadEvent.SUCCEED, UploadEvent.FAIL})


def new_build(event: BuildEvent, at: float, **fields: Any) -> Build:
    """The record that an event makes. ``fields``: its other keys. Raises Conflict if the event makes none."""
    return Build(state=BUILDS.to(None, event), state_time=at, **fields)


def build_after(record: Build, event: BuildEvent, at: float, **fields: Any) -> Build:
    """The build after an event. ``fields``: the other keys that change. Raises Conflict if the table has no such pair."""
    state = BUILDS.to(record.state, event)
    return replace(record, state=state, state_time=record.state_time if event is BuildEvent.RESUME else at, **fields)


def new_upload(event: UploadEvent, at: float, before: Upload | None = None, **fields: Any) -> Upload:
    """The record that an event makes, or makes anew of the attempt ``before``. Raises Conflict as ``new_build`` does."""
    return Upload(state=UPLOADS.to(before.state if before else None, event), state_time=at, **fields)


def upload_after(record: Upload, event: UploadEvent, at: float, **fields: Any) -> Upload:
    """The upload after an event. ``fields``: the other keys that change. Raises Conflict if the table has no such pair."""
    state = UPLOADS.to(record.state, event)
    stays = record.state is UploadState.DELETE and event in _ENDS
    return replace(record, state=state, state_time=record.state_time if stays else at, **fields)
