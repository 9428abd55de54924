"""The cluster itself: how it was made, the rights and the bytes of its znodes, and this host's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.model.records import Json
from nodepool_ocb.views.view import View, plain

SHOWN: Final = 4000  # characters of what a record holds, in a table; the other forms have all


class ClusterRow(View, frozen=True, kw_only=True):
    """A cluster that was made, or was there."""

    cluster: str  # its id
    place: str  # in ZooKeeper
    admin_domain: str | None
    made: bool


class RightsRow(View, frozen=True, kw_only=True):
    """A znode whose rights are not those of the configuration."""

    path: str
    found: tuple[str, ...]  # a grant each
    expected: tuple[str, ...]


class RecordDocument(View, frozen=True, kw_only=True):
    """What is at a path."""

    path: str
    kind: str | None
    cannot_be_read: str | None  # why
    version: int
    bytes: int
    session: str | None  # of an ephemeral znode: "0x100..."
    since: float
    below: tuple[str, ...]
    data: str  # with its control characters shown


class Deleted(View, frozen=True, kw_only=True):
    """A znode that was deleted."""

    change: str = "delete"
    path: str


class Nodepool(View, frozen=True, kw_only=True):
    """What a nodepool.yaml has, without anything that may be secret."""

    file: str
    diskimages: tuple[str, ...]
    providers: tuple[str, ...]
    labels: tuple[str, ...]


class ConfigDocument(View, frozen=True, kw_only=True):
    """The configuration of this host."""

    file: str | None
    zookeeper_reached: bool | None  # None where it was not asked
    settings: Mapping[str, Json]  # section → key → value
    nodepool: Nodepool | msgspec.UnsetType = msgspec.UNSET


def excerpt(document: RecordDocument) -> str:
    """The beginning of what a record holds."""
    left = len(document.data) - SHOWN
    return document.data[:SHOWN] + (f" ... and {left} characters more" if left > 0 else "")


def config_words(document: ConfigDocument) -> dict[str, Json]:
    """A line for each key: "section.key" → value."""
    asked = "not asked (--offline)" if document.zookeeper_reached is None else "reached"
    words: dict[str, Json] = {"file": document.file, "zookeeper": asked}
    for section, values in document.settings.items():
        if isinstance(values, Mapping):
            words |= {f"{section}.{key}": value for key, value in values.items()}
        else:
            words[section] = values
    if isinstance(document.nodepool, Nodepool):
        words |= {f"nodepool {key}": value for key, value in plain(document.nodepool).items()}
    else:
        words["nodepool file"] = "there is none; only builders need it"
    return words
