"""Documents of ``image export``, and those of Nodepool, from bytes. The caller reads the file."""

from __future__ import annotations

from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.images import nodepool
from nodepool_ocb.operations.images.exporting import Exported, ImagesDocument
from nodepool_ocb.operations.images.nodepool import NodepoolImage
from nodepool_ocb.operations.reads.images import as_json

MOST_BYTES: Final = 64 << 20


def parsed(data: bytes, name: str) -> ImagesDocument:
    """The document; ``name`` is its place, for errors. Raises Invalid."""
    if len(data) > MOST_BYTES:
        raise Invalid(f"{name}: larger than {MOST_BYTES} bytes; export the images in parts")
    try:
        if nodepool.is_nodepools(found := msgspec.json.decode(data)):
            return ImagesDocument(1, {image: _converted(each) for image, each in nodepool.taken(found).items()})
        return msgspec.json.decode(data, type=ImagesDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(
            f"{name}: no document of image export: {error}; write it anew: nodepool-ocb image export"
        ) from error


def _converted(image: NodepoolImage) -> Exported:
    builds: dict[str, dict[str, Json]] = {}
    for id, record in image.builds.items():
        uploads = {
            provider: {upload: as_json(each) for upload, each in found.items()}
            for provider, found in image.uploads.get(id, {}).items()
        }
        builds[id] = {**as_json(record), "uploads": uploads}
    return Exported(builds, as_json(image.pause) if image.pause else None)
