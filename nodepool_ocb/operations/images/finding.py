"""Images, builds and uploads, found by their names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from nodepool_ocb.errors import NotFound
from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Note, Steps
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.builders import ReadBuilders
from nodepool_ocb.operations.reads.images import FoundImages, ReadImages, ReadImagesAtFirst

Images: TypeAlias = Mapping[str, ImageView]


def load() -> Steps[Images]:
    """All images by name; a note names each record that cannot be read. It asks ``ReadImages``."""
    found = yield from ReadImages()
    for warning in _warnings(found):
        yield Note(warning)
    return found.by_name


def load_at_first() -> Steps[Images]:
    """All images as the first attempt read them. It asks ``ReadImagesAtFirst`` and ``Announcement``."""
    found = yield from ReadImagesAtFirst()
    yield from Announcement(tuple(_warnings(found)))
    return found.by_name


def _warnings(found: FoundImages) -> Iterator[str]:
    return (f"warning: {path} is left out: {reason}" for path, reason in found.unread.items())


def builders() -> Steps[dict[str, Daemon]]:
    """The builders that are running and have readable records, by id. It asks ``ReadBuilders``."""
    found = yield from ReadBuilders()
    return {id: said for id, said in found.items() if said is not None}


def image_of(images: Images, name: str) -> ImageView:
    """Raises NotFound."""
    if not images:
        raise NotFound(
            f"image {name} does not exist, and no other image: a builder makes those of its nodepool.yaml known;"
            " first: systemctl start nodepool-ocb-builder"
        )
    if name not in images:
        raise unknown("image", name, images)
    return images[name]


def build_of(view: ImageView, id: str) -> BuildView:
    """Raises NotFound. The id may lack leading zeros, and ``IMAGE-`` may stand before it."""
    digits = id.removeprefix(f"{view.name}-")
    found = view.build(digits.zfill(10))
    if found is None:
        has = ", ".join(build.id for build in view.builds) or "none"
        raise NotFound(f"image {view.name} has no build {id}; it has: {has}")
    return found


def uploads_named(view: ImageView, build: str, provider: str, id: str | None) -> list[UploadView]:
    """A build's uploads at a provider, or the one of this id. Raises NotFound."""
    of_build = build_of(view, build)
    there = [upload for upload in of_build.uploads if upload.provider == provider]
    chosen = there if id is None else [upload for upload in there if upload.id == id.zfill(10)]
    if not chosen:
        name = f"{of_build.id} {provider}{f' {id}' if id and there else ''}"
        raise unknown("upload", name, (f"{each.build} {each.provider}" for each in of_build.uploads))
    return chosen


def called(upload: UploadView) -> str:
    """The name of an upload in a question to a person."""
    name = upload.record.external_name or f"build {upload.build}, upload {upload.id}"
    return f"{name} at {upload.provider}"


def uploads_of(view: ImageView) -> Iterator[UploadView]:
    """The uploads of all builds."""
    return (upload for build in view.builds for upload in build.uploads)


def path_of(image: str, upload: UploadView) -> str:
    """The path of an upload's record."""
    return paths.upload(image, upload.build, upload.provider, upload.id)


def lock_paths(images: Images) -> Iterator[str]:
    """The locks of builds, and of uploads."""
    yield from map(paths.build_lock, images)
    places = ((name, upload.build, upload.provider) for name, view in images.items() for upload in uploads_of(view))
    yield from (paths.upload_lock(*place) for place in dict.fromkeys(places))
