"""The cluster itself: how it was made, the rights, bytes and secrets of its znodes, and this host's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json, Role
from nodepool_ocb.views.view import View, plain

SHOWN: Final = 4000  # characters of a record's data in a table; the other formats have all


class ClusterRow(View, frozen=True, kw_only=True):
    """A cluster that was made, or was there."""

    cluster: str  # its id
    place: str  # in ZooKeeper
    admin_domain: str | None
    made: bool


class RightsRow(View, frozen=True, kw_only=True):
    """A znode with rights that differ from the configuration."""

    path: str
    found: tuple[str, ...]  # a grant each
    expected: tuple[str, ...]


class RecordDocument(View, frozen=True, kw_only=True):
    """The record at a path."""

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


class NodepoolNames(View, frozen=True, kw_only=True):
    """The names in a nodepool.yaml, without any value that may be secret."""

    file: str
    diskimages: tuple[str, ...]
    providers: tuple[str, ...]
    labels: tuple[str, ...]


class LaunchNames(View, frozen=True, kw_only=True):
    """The names of a nodepool.yaml that a launcher of this host serves, and the parts that it leaves out."""

    file: str
    pools: tuple[str, ...]  # PROVIDER/POOL
    labels: tuple[str, ...]  # of these pools
    omitted: tuple[str, ...]  # a sentence each
    refused: tuple[str, ...] = ()  # why launchers refuse the file, a sentence each; then nothing of it is served


class ConfigDocument(View, frozen=True, kw_only=True):
    """The configuration of this host."""

    file: str | None
    zookeeper_reached: bool | None  # None where it was not asked
    settings: Mapping[str, Json]  # section → key → value
    nodepool: NodepoolNames | msgspec.UnsetType = msgspec.UNSET
    launcher: LaunchNames | msgspec.UnsetType = msgspec.UNSET


def excerpt(document: RecordDocument) -> str:
    """The first ``SHOWN`` characters of a record's data, and the number of the rest."""
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
    if isinstance(document.nodepool, NodepoolNames):
        words |= {f"nodepool {key}": value for key, value in plain(document.nodepool).items()}
    elif not isinstance(document.launcher, LaunchNames):
        words["nodepool file"] = "there is none; only builders and launchers need it"
    if isinstance(document.launcher, LaunchNames):
        words |= {f"launcher {key}": value for key, value in plain(document.launcher).items()}
    return words


# -- secrets: their places and keys, never their values --


class SecretRow(View, frozen=True, kw_only=True):
    """A secret in attributes."""

    name: str  # of the attributes' owner: "db@n1.example.com (user)", "db in web (user)", "role db"
    attribute: str  # its place: a/b/c
    kind: str  # enc, file, env or vault; plain where it is no secret yet, and declared as one
    key: str | None  # the id of the key that encrypted it
    state: str | None  # of that key here: newest, older or missing
    reference: str | None


#: The name of the attributes' owner, the role, and the attributes.
Owned = tuple[str, str, Json]


def secrets(owned: Iterable[Owned], catalogue: Mapping[str, Role], keys: Sequence[str]) -> list[SecretRow]:
    """Every secret in these attributes, in their order; ``keys``: the ids of the keys that are here, the newest first."""
    return [
        row
        for name, role, value in owned
        for row in (
            *(_secret(name, place, text, keys) for place, text in secrecy.found(value)),
            *in_plain_text([(name, role, value)], catalogue),
        )
    ]


def in_plain_text(owned: Iterable[Owned], catalogue: Mapping[str, Role]) -> Iterator[SecretRow]:
    """Values that roles declare as secret, and that stand there in plain text."""
    for name, role, value in owned:
        for place, _ in concealing.plain(catalogue, role, value):
            yield SecretRow(name=name, attribute=place, kind="plain", key=None, state=None, reference=None)


def _secret(name: str, place: str, text: str, keys: Sequence[str]) -> SecretRow:
    parts = secrecy.encrypted(text)
    key = parts[0] if parts else None
    state = None if key is None else "missing" if key not in keys else "newest" if key == keys[0] else "older"
    kind = text.partition(":")[0]
    return SecretRow(
        name=name, attribute=place, kind=kind, key=key, state=state, reference=None if kind == "enc" else text
    )


class MadeKey(View, frozen=True, kw_only=True):
    """A key that was made."""

    key: str  # its id
    file: str
    keys: tuple[str, ...]  # all of the file, the newest first
