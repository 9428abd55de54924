"""The names in a cloud: flavors, networks and images, as its users name them. Their lists are kept for a few minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.cloud.asking import CloudQuestions, CloudRefusal
from nodepool_ocb.providers.machines import LaunchParty

if TYPE_CHECKING:
    from openstack.connection import Connection

KNOWN_SECONDS: Final = 300.0  # that the lists of flavors and networks are kept


class CloudNames:
    """The names at one provider, for any thread. Its methods raise CloudRefusal for a name that the cloud does not have."""

    def __init__(self, questions: CloudQuestions) -> None:
        self._questions = questions
        self._lock = threading.Lock()
        self._lists: dict[
            str, tuple[float, Sequence[Any]]
        ] = {}  # by kind: when it was read (monotonic), and its entries

    def flavor(self, cloud: Connection, options: Mapping[str, Json]) -> Any:
        """The flavor of a label: the one of its name, or the smallest with its memory."""
        flavors = sorted(self.known(cloud, "flavors"), key=lambda each: (each.ram, each.name))
        name, ram = options.get("flavor-name"), options.get("min-ram")
        for each in flavors:
            if ram is None and name in (each.name, each.id):
                return each
            if ram is not None and each.ram >= ram and (not name or name in each.name):
                return each
        sought = f"named {name}" if ram is None else f"with {ram} MiB" + (f" and {name} in its name" if name else "")
        raise self._unknown(f"there is no flavor {sought}; correct the label")

    def network(self, cloud: Connection, name: str) -> str:
        """The id of a network."""
        for each in self.known(cloud, "networks"):
            if name in (each.name, each.id):
                return str(each.id)
        raise self._unknown(f"there is no network {name}; correct `networks`")

    def image(self, cloud: Connection, options: Mapping[str, Json]) -> str:
        """The id of the provider's own image of a label."""
        if "image-id" in options:
            return str(options["image-id"])
        name = options.get("image-name")
        found = next((each for each in cloud.image.images(name=name, status="active")), None) if name else None
        if found is None:
            raise self._unknown(f"there is no active image {name}; correct `cloud-images`")
        return str(found.id)

    def known(self, cloud: Connection, kind: str) -> Sequence[Any]:
        """Flavors or networks, as they were read a few minutes ago at most."""
        with self._lock:
            read, found = self._lists.get(kind, (0.0, ()))
        if found and time.monotonic() - read < KNOWN_SECONDS:
            return found
        found = [*cloud.compute.flavors()] if kind == "flavors" else _networks(cloud)
        with self._lock:
            self._lists[kind] = time.monotonic(), found
        return found

    def forget(self) -> None:
        """Read the lists anew at the next question."""
        with self._lock:
            self._lists.clear()

    def _unknown(self, text: str) -> CloudRefusal:
        return CloudRefusal(self._questions.refused(text, LaunchParty.REQUEST))


def _networks(cloud: Connection) -> list[Any]:
    """The networks; none in a cloud without Neutron."""
    from keystoneauth1.exceptions import EndpointNotFound

    try:
        return [*cloud.network.networks()]
    except EndpointNotFound:
        return []
