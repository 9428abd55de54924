"""The contract of every driver of a provider: it takes an image's file and returns the provider's id of it.

Expected faults are values, also a provider that does not answer: Refused has the reason, and whether a repetition can
help. Every external object carries a stamp from its creation on, so ``list`` finds the objects that a dead builder
left. An object is changed only by a caller that has its whole stamp. A driver is named by an entry point of the group
``nodepool_ocb.providers``: docs/providers.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from nodepool_ocb import extensions
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.images.faults import OPENSTACK
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.drivers import DriverGroup
from nodepool_ocb.providers.stamp import Stamp

KIND: Final = "provider"  # of extension
GROUP: Final = "nodepool_ocb.providers"
LONGEST_NAME: Final = 255  # of an image in Glance


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a build, to be sent to one provider."""

    file: Path
    format: str
    stamp: Stamp  # of the object that it becomes
    external_name: str  # its name there: by its stamp, or as the provider's configuration says
    sha256: str
    md5: str
    size: int
    meta: Mapping[str, str] = {}
    stop: threading.Event  # when it is set, give up soon
    timeout_seconds: float

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the external object: ``meta``, and the stamp, which ``meta`` cannot replace."""
        return {**self.meta, **self.stamp.labels}


class Sent(msgspec.Struct, frozen=True):
    """The provider has all bytes; ``verify`` tells whether they are correct."""

    external_id: str


class Refused(msgspec.Struct, frozen=True):
    """The request was not done, and the provider reports no leftovers. ``lasting``: another attempt cannot help."""

    reason: str
    lasting: bool = False


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An external object with a stamp, of this cluster and provider or of others; it may be half made."""

    external_id: str
    external_name: str
    stamp: Stamp
    since: float | None = None  # when it was made, where the provider tells

    @staticmethod
    def stamped(
        external_id: str, external_name: str, labels: Mapping[str, object], since: float | None = None
    ) -> Kept | None:
        """The object with these labels; None if they hold no stamp."""
        stamp = Stamp.of(labels)
        if stamp is None:
            return None
        return Kept(external_id=external_id, external_name=external_name, stamp=stamp, since=since)


def not_ours(external_id: str, provider: str, labels: Mapping[str, object], expected: Stamp) -> Refused | None:
    """Why an object with these labels is not to be touched for ``expected``; None if it bears that stamp."""
    if expected.fits(labels):
        return None
    found = Stamp.of(labels)
    whose = f"that of {found.external_name} of cluster {found.cluster}" if found else "none"
    return Refused(
        f"image {external_id} of provider {provider} is not {expected.external_name}: the stamp on it is {whose};"
        " see: nodepool-ocb upload leaks",
        lasting=True,
    )


class Uploader(Protocol):
    """A configured provider. Its methods are called from several threads at once."""

    def upload(self, item: Item) -> Sent | Refused:
        """Send it, in the item's time. The file is compared with ``sha256`` on its way. If the upload is Refused or
        stopped, the driver deletes the object that it began.
        """

    def verify(self, external_id: str, item: Item) -> Refused | None:
        """None when the provider has it whole, under the item's stamp: size and checksum, where it can tell."""

    def delete(self, external_id: str, stamp: Stamp) -> Refused | None:
        """None when it is gone, which it may have been already; an object that bears another stamp is refused."""

    def list(self) -> Iterable[Kept]:
        """All that carries a stamp, of any cluster and provider. Raises Unavailable where the provider cannot tell."""

    def close(self) -> None:
        """Give back connections."""


class Driver(Protocol):
    """The class that an entry point names. Making one raises Invalid where something is not installed."""

    def __call__(self, provider: Provider) -> Uploader: ...

    def faults(self, provider: Provider) -> list[str]:
        """A static method: the faults of the provider's options, as sentences; it contacts no other system."""


_DRIVERS: Final = DriverGroup[Driver](KIND, GROUP, Driver)


def installed() -> extensions.Found[Driver]:
    """Every driver that the entry points name, by name; a driver that breaks the contract is left out."""
    return _DRIVERS.installed()


def faults(provider: Provider) -> list[str]:
    """The faults of a provider's driver and options, as sentences."""
    absent = f"driver `{provider.driver}` is not installed"
    return _DRIVERS.faults(provider.driver, lambda driver: driver.faults(provider), absent)


def takes(driver: str, options: Mapping[str, Json]) -> str | None:
    """The format that a provider takes, if its driver knows it from another source such as clouds.yaml. None if the
    driver does not know it, or is not installed. Raises Invalid if the options name something that does not exist.
    """
    asked = getattr(_DRIVERS.driver(driver), "takes", None) if driver in _DRIVERS.points() else None
    try:
        return asked(options) if asked else None
    except Invalid:
        raise
    except Exception as error:
        raise Invalid(f"driver `{driver}` raised {extensions.in_a_line(error)}; correct its package") from error


def external_name(provider: Provider, stamp: Stamp, now: float) -> str:
    """The name of an object: by ``image-name-format`` of an OpenStack provider, else by its stamp."""
    format = provider.options.get("image-name-format") if provider.driver == OPENSTACK else None
    if not format:
        return stamp.external_name
    name = format.format(image_name=stamp.image, timestamp=str(int(now)), build_id=stamp.build, upload_id=stamp.upload)
    return str(name)[:LONGEST_NAME]


def open(provider: Provider) -> Uploader:
    """The provider's driver, ready to be used; nothing is asked of the provider yet. Raises Invalid with every fault."""
    found = faults(provider)
    if found:
        raise Invalid([f"provider {provider.name}: {fault}" for fault in found])
    try:
        made = _DRIVERS.driver(provider.driver)(provider)
        fault = next(extensions.faults(made, Uploader), None)
    except Invalid:
        raise
    except Exception as error:
        fault = f"it raised {extensions.in_a_line(error)}"
    if fault is not None:
        raise Invalid(f"provider {provider.name}: driver `{provider.driver}`: {fault}; correct its package")
    return made


def send(uploader: Uploader, item: Item) -> Sent | Refused:
    """The answer to an upload. An exception, and any other answer, is a refusal: the upload may be tried again.

    Such an upload may have left an object. That object has a stamp that no record names, so it is found as a leak.
    """
    try:
        answer: object = uploader.upload(item)
    except OcbError:
        raise
    except Exception as error:  # of a package of others
        return Refused(f"the driver raised {extensions.in_a_line(error)}; correct its package")
    if isinstance(answer, Sent | Refused):
        return answer
    return Refused(
        f"the driver answered {type(answer).__name__}, which is neither Sent nor Refused; correct its package"
    )
