"""Images with their builds and uploads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class FoundImages(msgspec.Struct, frozen=True):
    """``by_name``: image → view, in the order of names; ``unread``: path of a record → the reason why it is left out."""

    by_name: Mapping[str, ImageView]
    unread: Mapping[str, str]


class ReadImages(Lookup[FoundImages], frozen=True):
    """All images, no older than this call."""

    records = "images, builds and uploads"

    def answer(self, reader: Reader) -> FoundImages:
        from nodepool_ocb.store import images

        reader.session.sync()
        unread: dict[str, str] = {}
        return FoundImages(images.read(reader.session, images.names(reader.session), unread), unread)
