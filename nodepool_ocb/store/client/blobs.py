"""The attributes of many noderoles in one read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Given
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import SessionReads


class FoundBlobs(msgspec.Struct, frozen=True):
    """The attributes that were read, by path, and for each unreadable path the reason."""

    blobs: Mapping[str, Mapping[str, Any]]
    unreadable: Mapping[str, str]


def read(session: SessionReads, folders: Collection[str], names: Iterable[str]) -> FoundBlobs:
    """The attributes of these names below noderoles; ``folders`` are the paths of the noderoles. Raises Unavailable or
    Denied.

    One round of requests lists the names below each folder. Absent attributes cost no further request.
    """
    wanted = frozenset(names)
    listed = zip(folders, session.children_many(list(folders)), strict=True)
    there = [f"{folder}/{name}" for folder, found in listed for name in found or () if name in wanted]
    blobs: dict[str, Mapping[str, Any]] = {}
    unreadable: dict[str, str] = {}
    for path, znode in zip(there, session.get_many(there), strict=True):
        try:
            blobs[path] = codec.attributes(znode)
        except Invalid as wrong:
            unreadable[path] = str(wrong)
    return FoundBlobs(blobs, unreadable)


def attributes(session: SessionReads, paths: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The attributes at these paths, but for those that are not there; raises Spoiled, Unavailable or Denied."""
    found = zip(paths, session.get_many(paths), strict=True)
    return {path: codec.attributes(znode) for path, znode in found if znode is not None}


def given(session: SessionReads, paths: Sequence[str]) -> list[Given | None]:
    """The recorded inputs of runs, one for each path; None if there is no record. The reason stands in it if it cannot
    be read.

    Raises Unavailable or Denied.
    """
    return [_given(znode) if znode is not None else None for znode in session.get_many(paths)]


def _given(znode: Znode) -> Given:
    try:
        return codec.decode(Given, znode)
    except Invalid as wrong:
        return Given(jig="", reason=str(wrong))
