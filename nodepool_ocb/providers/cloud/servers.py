"""The servers of a cloud as machines: create, find, look, delete, list, and the quota.

The stamp is among the server's metadata from its creation on. Each call has a connection of its own.
"""

from __future__ import annotations

import base64
import contextlib
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, Resources
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.cloud.addresses import FloatingAddresses, addresses
from nodepool_ocb.providers.cloud.asking import CloudQuestions
from nodepool_ocb.providers.cloud.names import CloudNames
from nodepool_ocb.providers.cloud.options import cloud_faults
from nodepool_ocb.providers.launchoptions import VOLUME_GB, volume_resources
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp

if TYPE_CHECKING:
    from openstack.connection import Connection

DELETE_SECONDS: Final = 40.0  # that a server may take to disappear within one call
LOOK_SECONDS: Final = 0.5  # between two looks at a server that is being deleted
VALUE_CHARACTERS: Final = 255  # of a value of the metadata
#: Nova's status of a server → the state of a machine; all others are ``building``.
STATES: Final = {
    "ACTIVE": "running",
    "ERROR": "failed",
    "SHUTOFF": "stopped",
    "PAUSED": "stopped",
    "SUSPENDED": "stopped",
    "DELETED": "deleting",
    "SOFT_DELETED": "deleting",
}


class OpenStackServers:
    """Each call has a connection of its own, for its sockets are no other thread's."""

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        del ssh
        self._provider = provider
        self._questions = CloudQuestions(provider)
        self._names = CloudNames(self._questions)
        self._floating = FloatingAddresses(self._names)
        self._clusters: set[str] = set()  # those of the stamps that this process was given

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return list(cloud_faults(provider))

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        """One instance, and the volume; the flavor's cores and memory are known to the cloud alone."""
        del provider
        found = {"instances": 1.0} | volume_resources(label)
        if "min-ram" in label.options:
            found["ram"] = float(label.options["min-ram"])
        return found | dict(label.resources)

    # -- the contract --

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        self._clusters.add(order.stamp.cluster)

        def create(cloud: Connection) -> Machine:
            asked = self._request(cloud, order)
            try:
                server = cloud.compute.create_server(**asked)
            except _bad_request():
                self._names.forget()  # a flavor, a network or an image may have been made anew
                raise
            return self._machine(cloud, server, order.pool)

        return self._questions.ask(create)

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        self._clusters.add(stamp.cluster)

        def find(cloud: Connection) -> Machine | None:
            for server in cloud.compute.servers(details=True):
                if MachineStamp.of(server.metadata or {}) == stamp and server.status != "DELETED":
                    return self._machine(cloud, server, self._provider.pools.get(stamp.pool))
            return None

        return self._questions.ask(find)

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        def look(cloud: Connection) -> Machine | None:
            server = _server(cloud, external_id)
            if server is None:
                return None
            stamp = MachineStamp.of(server.metadata or {})
            pool = self._provider.pools.get(stamp.pool) if stamp is not None else None
            if stamp is not None and server.status == "ACTIVE" and self._floating.awaited(cloud, server, pool):
                self._floating.give(cloud, server, stamp)
                server = _server(cloud, external_id) or server
            return self._machine(cloud, server, pool)

        return self._questions.ask(look)

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        self._clusters.add(stamp.cluster)

        def delete(cloud: Connection) -> MachineRefused | None:
            server = _server(cloud, external_id)
            if server is not None:
                found = MachineStamp.of(server.metadata or {})
                if found != stamp:
                    owner = f"that of node {found.node} of cluster {found.cluster}" if found else "none"
                    text = f"server {external_id} is not of node {stamp.node}: the stamp on it is {owner}"
                    return self._questions.refused(text, LaunchParty.REQUEST)
            self._floating.delete(cloud, stamp)
            if server is None:
                return None
            cloud.compute.delete_server(external_id, ignore_missing=True)
            ends = time.monotonic() + DELETE_SECONDS
            while time.monotonic() < ends:
                if _server(cloud, external_id) is None:
                    return None
                time.sleep(LOOK_SECONDS)
            text = f"server {external_id} is still there {DELETE_SECONDS:.0f} s after it was deleted"
            return self._questions.refused(text)

        return self._questions.ask(delete)

    def list(self) -> Iterable[Machine]:
        def every(cloud: Connection) -> Sequence[Machine]:
            servers = [*cloud.compute.servers(details=True)]
            return [
                self._machine(cloud, each, None)
                for each in servers
                if MachineStamp.of(each.metadata or {}) is not None and each.status != "DELETED"
            ]

        found = self._questions.ask(every)
        if isinstance(found, MachineRefused):
            raise Unavailable(found.reason)
        return found

    def quota(self) -> ProviderQuota | MachineRefused:
        def read(cloud: Connection) -> ProviderQuota:
            absolute = cloud.compute.get_limits().absolute
            limits = {"instances": absolute.instances, "cores": absolute.total_cores, "ram": absolute.total_ram}
            used = {
                "instances": absolute.instances_used,
                "cores": absolute.total_cores_used,
                "ram": absolute.total_ram_used,
            }
            ours = self._own_usage(cloud)
            return ProviderQuota(
                limits={key: float(value) for key, value in limits.items() if _limits(value)},
                foreign={key: max(0.0, float(value or 0) - ours[key]) for key, value in used.items()},
            )

        return self._questions.ask(read)

    def close(self) -> None: ...

    # -- servers --

    def _request(self, cloud: Connection, order: MachineOrder) -> dict[str, Any]:
        """The fields of a new server. Raises _Refusal."""
        options, pool = order.label.options, order.pool.options
        asked: dict[str, Any] = {
            "name": order.name,
            "flavor_id": self._names.flavor(cloud, options).id,
            "metadata": _metadata(options.get("instance-properties") or {}, order),
        }
        if "config-drive" in options:
            asked["has_config_drive"] = options["config-drive"]
        if "key-name" in options:
            asked["key_name"] = options["key-name"]
        if options.get("userdata"):
            asked["user_data"] = base64.b64encode(options["userdata"].encode()).decode()
        zones = [order.az] if order.az else pool.get("availability-zones") or []
        if zones:
            asked["availability_zone"] = zones[zlib.crc32(order.stamp.key.encode()) % len(zones)]
        if pool.get("security-groups"):
            asked["security_groups"] = [{"name": name} for name in pool["security-groups"]]
        networks = options.get("networks") or pool.get("networks") or []
        asked["networks"] = [{"uuid": self._names.network(cloud, name)} for name in networks] if networks else "auto"
        image = order.image or self._names.image(cloud, options)
        if options.get("boot-from-volume"):
            volume = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume"}
            volume |= {"volume_size": options.get("volume-size", VOLUME_GB), "delete_on_termination": True}
            asked["block_device_mapping"] = [volume]
        else:
            asked["image_id"] = image
        return asked

    def _machine(self, cloud: Connection, server: Any, pool: ProviderPool | None) -> Machine:
        found = list(addresses(server))
        floating = next((each for kind, version, each in found if kind == "floating" and version == 4), None)
        fixed = next((each for kind, version, each in found if kind != "floating" and version == 4), None)
        six = next((each for _, version, each in found if version == 6), None)
        public = floating or server.access_ipv4 or None
        state = STATES.get(server.status or "", "building")
        if state == "running" and self._floating.awaited(cloud, server, pool):
            state = "building"  # its floating address follows
        since = None
        with contextlib.suppress(TypeError, ValueError):
            since = datetime.fromisoformat(str(server.created_at)).timestamp()
        return Machine(
            external_id=server.id,
            name=server.name or "",
            stamp=MachineStamp.of(server.metadata or {}),
            state=state,
            fault=str((server.fault or {}).get("message") or "the server is in ERROR") if state == "failed" else None,
            address=public or six or fixed,
            public_ipv4=public,
            private_ipv4=fixed,
            public_ipv6=six,
            az=server.availability_zone or None,
            region=self._provider.region,
            cloud=self._provider.cloud,
            host_id=server.host_id or None,
            resources=_used(self._names.known(cloud, "flavors"), server),
            since=since,
        )

    def _own_usage(self, cloud: Connection) -> dict[str, float]:
        """The resources of the servers of this provider: of the clusters that this process knows, or of any."""
        total = {"instances": 0.0, "cores": 0.0, "ram": 0.0}
        for server in cloud.compute.servers(details=True):
            stamp = MachineStamp.of(server.metadata or {})
            if stamp is None or stamp.provider != self._provider.name:
                continue
            if self._clusters and stamp.cluster not in self._clusters:
                continue
            for key, value in _used(self._names.known(cloud, "flavors"), server).items():
                total[key] += value
        return total


def _metadata(own: Mapping[str, Json], order: MachineOrder) -> dict[str, str]:
    """The metadata of a server: the label's, the launcher's, and the stamp, which neither replaces."""
    texts = {str(key): str(value)[:VALUE_CHARACTERS] for key, value in {**own, **order.properties}.items()}
    return texts | order.stamp.labels


def _used(flavors: Iterable[Any], server: Any) -> dict[str, float]:
    """The resources of a server, by its flavor: Nova embeds it, or names it."""
    own = server.flavor
    flavor = next((each for each in flavors if own is not None and own.id and each.id == own.id), own)
    ram, cores = getattr(flavor, "ram", None) or 0, getattr(flavor, "vcpus", None) or 0
    return {"instances": 1.0, "cores": float(cores), "ram": float(ram)}


def _limits(value: object) -> bool:
    """Whether a number of Nova is a limit: -1 stands for none."""
    return isinstance(value, int | float) and value >= 0


def _server(cloud: Connection, external_id: str) -> Any:
    """A server, or None where it is gone."""
    from openstack.exceptions import NotFoundException

    try:
        found = cloud.compute.get_server(external_id)
    except NotFoundException:
        return None
    return None if found.status == "DELETED" else found


def _bad_request() -> type[Exception]:
    from openstack.exceptions import BadRequestException

    return BadRequestException
