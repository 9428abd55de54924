"""``image export``: the records of images as one document.

The document names images, below each its builds by id, below these their uploads by provider and id; records are as
ZooKeeper holds them. Builds and uploads that are under way are left out: no builder could continue them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.images import ReadImages, RecordAsJson


class Exported(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An image: ``builds`` is id → record with ``uploads``: provider → id → record."""

    builds: dict[str, dict[str, Json]]
    pause: dict[str, Json] | None = None


class ImagesDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exported images, by name."""

    schema: Literal[1]
    images: dict[str, Exported]


class ImageExport(Operation[ImagesDocument], frozen=True, kw_only=True):
    """The records of images as one document. Raises NotFound for an image that does not exist."""

    noun = "image"
    verb = "export"
    right = Right.VIEWER
    reads = (ReadImages, RecordAsJson)

    images: tuple[str, ...] = ()  # none: all

    def decide(self, situation: Situation) -> Steps[ImagesDocument]:  # noqa: ARG002
        known = yield from finding.load()
        names = dict.fromkeys(self.images)
        chosen = [finding.image_of(known, name) for name in names] if names else list(known.values())
        exported: dict[str, Exported] = {}
        for view in chosen:
            exported[view.name] = yield from _exported(view)
        left_out = sum(not lasting(build.record) for view in chosen for build in view.builds)
        if left_out:
            yield Note(f"left out: {counted(left_out, 'build that is', 'builds that are')} under way, or aborted")
        return ImagesDocument(1, exported)


def lasting(record: Build | Upload) -> bool:
    """True for a record that may be exported: it is not under way, and not aborted."""
    return record.state not in (BuildState.BUILDING, BuildState.ABORTED, UploadState.UPLOADING)


def _exported(view: ImageView) -> Steps[Exported]:
    builds: dict[str, dict[str, Json]] = {}
    for build in view.builds:
        if not lasting(build.record):
            continue
        record = yield from RecordAsJson(build.record)
        uploads: dict[str, dict[str, Json]] = {}
        for upload in build.uploads:
            if lasting(upload.record):
                uploads.setdefault(upload.provider, {})[upload.id] = yield from RecordAsJson(upload.record)
        builds[build.id] = {**record, "uploads": uploads}
    pause = (yield from RecordAsJson(view.pause.record)) if view.pause else None
    return Exported(builds, pause)
