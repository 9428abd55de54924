"""Images with their builds and uploads, and the configuration of images on this host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.records import Json, Record
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings
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


class ReadImagesAtFirst(ReadImages, frozen=True):
    """As ``ReadImages``, one time in a call: the images as they were when agreement was asked for."""

    kept = True


class ReadConfiguredPauses(Lookup[Mapping[str, str]], frozen=True):
    """The images that the nodepool.yaml of the performer's host pauses, each with the name of that file.

    Empty if the host has no configuration, or if that file is not valid. Builders read their own files.
    Raises Invalid for a configuration that is not valid.
    """

    records = "configuration of the host"

    def answer(self, reader: Reader) -> Mapping[str, str]:
        return configured_pauses(reader.performer.settings())


def configured_pauses(settings: Settings) -> Mapping[str, str]:
    """The answer of ``ReadConfiguredPauses``, for a caller without a session."""
    import os

    from nodepool_ocb.images import nodepool

    if settings.file is None:
        return {}
    file = settings.builder.nodepool
    try:
        return {image.name: file for image in nodepool.load(file, environ=os.environ).diskimages if image.pause}
    except Invalid:
        return {}


class RecordAsJson(Lookup[dict[str, Json]], frozen=True):
    """A record as ZooKeeper holds it, with the fields that a later version added. Raises Invalid if it cannot be written."""

    records = ""

    record: Record

    def answer(self, reader: Reader) -> dict[str, Json]:  # noqa: ARG002
        return as_json(self.record)


def as_json(record: Record) -> dict[str, Json]:
    """The answer of ``RecordAsJson``, for a caller without a session."""
    import json

    from nodepool_ocb.store.client import codec

    document: dict[str, Json] = json.loads(codec.encode(record))
    return document


class RecordFromJson(Lookup["Record | Invalid"], frozen=True):
    """The record of a kind that these fields are at a path, or the faults if they cannot be decoded."""

    records = ""

    kind: type[Record]
    path: str
    fields: Mapping[str, Json]

    def answer(self, reader: Reader) -> Record | Invalid:  # noqa: ARG002
        from nodepool_ocb.store.client import codec
        from nodepool_ocb.store.client.frames import Znode

        try:
            return codec.decode(self.kind, Znode(self.path, msgspec.json.encode(self.fields), 0, 0))
        except Invalid as faults:
            return faults


class RaiseNumbers(Lookup[None], frozen=True):
    """Make the folder at ``parent``; later children of it get numbers above ``beyond``. It writes, and leaves no child."""

    records = "names of znodes"

    parent: str
    beyond: int | None  # None: the folder alone

    def answer(self, reader: Reader) -> None:
        from nodepool_ocb.store.sequence import raise_beyond

        reader.session.ensure(self.parent)
        if self.beyond is not None:
            raise_beyond(reader.session, self.parent, self.beyond)


class RequestNumber(Lookup[int], frozen=True):
    """The number of the build request that this call committed last: the mzxid of its flag."""

    records = ""

    def answer(self, reader: Reader) -> int:
        stat = reader.performer.committed[0]
        assert stat is not None, "a flag that was written has a stat"
        return stat.mzxid
