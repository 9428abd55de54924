"""What a record of an upload says of the stamp on its external object."""

from __future__ import annotations

from nodepool_ocb.images.rules import UploadView
from nodepool_ocb.providers.stamp import Stamp


def stamp_of(image: str, upload: UploadView) -> Stamp:
    """The stamp on what the newest attempt made. The cluster is the record's: records may have come from another one."""
    record = upload.record
    return Stamp(
        cluster=record.cluster,
        provider=upload.provider,
        image=image,
        build=upload.build,
        upload=upload.id,
        key=record.key,
    )
