"""The upload from which each provider launches each image. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.pool.views import NO_PROVIDER, ReadyImage

#: The formats of images for the disks of machines.
DISKS: Final = frozenset({"raw", "tar"})


def ready_images(images: Mapping[str, ImageView]) -> dict[tuple[str, str], ReadyImage]:
    """By provider and image: the highest ready upload of the newest build that has a ready one there.

    A build that is being deleted does not count: its uploads go next. Machines of the fleet receive an image from any server
    that has it, so for them the newest build counts, under the name of no provider.
    """
    found: dict[tuple[str, str], ReadyImage] = {}
    for name, image in images.items():
        for build in image.builds:  # oldest first: a newer one replaces it
            if build.record.state is not BuildState.DELETE:
                found |= {(provider, name): ready for provider, ready in _of_build(name, build).items()}
                found |= _installable(name, build)
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


def _installable(image: str, build: BuildView) -> dict[tuple[str, str], ReadyImage]:
    """A build for the disks of machines, of which a server has a copy, under the name of no provider."""
    record = build.record
    there = any(each.record.state is UploadState.READY for each in build.uploads)
    if record.state is not BuildState.READY or not there or DISKS.isdisjoint(record.checksums):
        return {}
    return {
        (NO_PROVIDER, image): ReadyImage(
            build=build.id,
            upload="",
            path=paths.build(image, build.id),
            external_id=build.id,
            username=None,  # a machine of the fleet has a login of its own
            python_path=record.python_path,
            shell_type=record.shell_type,
        )
    }
