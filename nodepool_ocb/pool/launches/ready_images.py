"""The upload from which each provider launches each image. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.pool.views import ReadyImage


def ready_images(images: Mapping[str, ImageView]) -> dict[tuple[str, str], ReadyImage]:
    """By provider and image: the highest ready upload of the newest build that has a ready one there.

    A build that is being deleted does not count: its uploads go next.
    """
    found: dict[tuple[str, str], ReadyImage] = {}
    for name, image in images.items():
        for build in image.builds:  # oldest first: a newer one replaces it
            if build.record.state is not BuildState.DELETE:
                found |= {(provider, name): ready for provider, ready in _of_build(name, build).items()}
    return found


def _of_build(image: str, build: BuildView) -> dict[str, ReadyImage]:
    """By provider."""
    found: dict[str, ReadyImage] = {}
    for upload in sorted(build.uploads, key=lambda each: each.id):
        record = upload.record
        if record.state is not UploadState.READY or record.external_id is None:
            continue
        found[upload.provider] = ReadyImage(
            build=build.id,
            upload=upload.id,
            path=paths.upload(image, build.id, upload.provider, upload.id),
            external_id=record.external_id,
            username=record.username or build.record.username,
            python_path=record.python_path or build.record.python_path,
            shell_type=record.shell_type or build.record.shell_type,
        )
    return found
