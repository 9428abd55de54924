"""What every driver of a provider is: an image's file goes in, what the provider calls it comes out.

What is expected, down to a provider that answers nothing, is a value: Refused says why, and whether trying again can
help. Every external object carries a stamp from the moment that it exists (STAMP), so that what a dead builder left is
found by ``list``; an object without our stamp is never touched. A driver is named by an entry point of the group
``nodepool_ocb.providers``: docs/providers.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec

from nodepool_ocb.checks import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.nodepool import Provider

GROUP: Final = "nodepool_ocb.providers"
STAMP: Final = "nodepool_ocb_"  # what the keys of the stamp begin with: nodepool_ocb_cluster, _image, _build, _upload


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a build, to be sent to one provider."""

    file: Path
    format: str
    external_name: str  # <image>-<build>-<upload>
    image: str
    build: str
    upload: str
    cluster: str  # id of the cluster
    sha256: str
    md5: str
    size: int
    meta: Mapping[str, str] = {}
    stop: threading.Event  # when it is set, give up soon
    timeout_seconds: float

    @property
    def stamp(self) -> dict[str, str]:
        """What the external object says about itself."""
        return {
            f"{STAMP}cluster": self.cluster,
            f"{STAMP}image": self.image,
            f"{STAMP}build": self.build,
            f"{STAMP}upload": self.upload,
        }


class Sent(msgspec.Struct, frozen=True):
    """The provider has it all; ``verify`` tells whether it is what was sent."""

    external_id: str


class Refused(msgspec.Struct, frozen=True):
    """It was not done, and nothing of it is left as far as the provider answers; ``lasting``: trying again cannot help."""

    reason: str
    lasting: bool = False


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An external object with a stamp, of this cluster or of another; it may be half made."""

    external_id: str
    external_name: str
    cluster: str | None = None
    image: str | None = None
    build: str | None = None
    upload: str | None = None

    @staticmethod
    def stamped(external_id: str, external_name: str, labels: Mapping[str, str]) -> Kept | None:
        """What ``labels`` say about an object; None when they hold no stamp."""
        if f"{STAMP}cluster" not in labels:
            return None
        stamp = {key: labels.get(STAMP + key) for key in ("cluster", "image", "build", "upload")}
        return Kept(external_id=external_id, external_name=external_name, **stamp)


class Uploader(Protocol):
    """A configured provider. Its methods are called from several threads at once."""

    def upload(self, item: Item) -> Sent | Refused:
        """Send it, in the item's time. The file is compared with ``sha256`` on its way; when it is Refused, or is to
        stop, what was begun is deleted again."""

    def verify(self, external_id: str, item: Item) -> Refused | None:
        """None when the provider has it whole: size and checksum, where it can tell."""

    def delete(self, external_id: str) -> Refused | None:
        """None when it is gone, which it may have been already."""

    def list(self) -> Iterable[Kept]:
        """All that carries a stamp, of any cluster. Raises Unavailable where the provider cannot tell."""

    def close(self) -> None:
        """Give back connections."""


class Driver(Protocol):
    """The class that an entry point names. Making one raises Invalid where something is not installed."""

    def __call__(self, provider: Provider) -> Uploader: ...

    def faults(self, provider: Provider) -> list[str]:
        """A static method: what is wrong in the provider's options, as sentences; touches nothing outside."""


def installed() -> Mapping[str, Driver]:
    """Every driver that the entry points name, by name."""
    return {name: _driver(name) for name in _points()}


def faults(provider: Provider) -> list[str]:
    """What is wrong in a provider's driver and options, as sentences."""
    points = _points()
    if provider.driver not in points:
        hint = did_you_mean(provider.driver, points)
        return [f"driver `{provider.driver}` is not installed; there are {', '.join(sorted(points))}{hint}"]
    return _driver(provider.driver).faults(provider)


def open(provider: Provider) -> Uploader:
    """The provider's driver, ready to be used; nothing is asked of the provider yet. Raises Invalid with every fault."""
    found = faults(provider)
    if found:
        raise Invalid([f"provider {provider.name}: {fault}" for fault in found])
    return _driver(provider.driver)(provider)


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _driver(name: str) -> Driver:
    return cast(Driver, _points()[name].load())
