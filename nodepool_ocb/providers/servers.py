"""Driver openstack for machines: servers of Nova, with their volumes and floating addresses, by way of openstacksdk.

clouds.yaml has the cloud and the user, as for Nodepool. The stamp is among the server's metadata from its creation on. A floating
address belongs to the server's port, and has the stamp's key in its description. It is deleted before the server.
"""

from __future__ import annotations

import base64
import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Invalid, Unavailable
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, Resources
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.launchoptions import VOLUME_GB, option_faults, volume_resources
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused, MachineStamp

if TYPE_CHECKING:
    from openstack.connection import Connection

T = TypeVar("T")

ANSWER_SECONDS: Final = 30.0  # of one request
DELETE_SECONDS: Final = 40.0  # that a server may take to disappear within one call
LOOK_SECONDS: Final = 0.5  # between two looks at a server that is being deleted
KNOWN_SECONDS: Final = 300.0  # that the lists of flavors and networks are kept
VALUE_CHARACTERS: Final = 255  # of a value of the metadata
OUR_ADDRESS: Final = "nodepool_ocb "  # the beginning of a floating address's description
NAMES: Final[Json] = {"type": "array", "items": {"type": "string", "minLength": 1}}
POOL_OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "networks": NAMES,
        "auto-floating-ip": {"type": "boolean"},
        "availability-zones": NAMES,
        "security-groups": NAMES,
    },
    "additionalProperties": False,
}
TEMPLATES: Final = "dynamic-instance-properties"
LABEL_OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "flavor-name": {"type": "string", "minLength": 1},
        "min-ram": {"type": "integer", "minimum": 1},
        "key-name": {"type": "string", "minLength": 1},
        "boot-from-volume": {"type": "boolean"},
        "volume-size": {"type": "integer", "minimum": 1},
        "instance-properties": {"type": "object"},
        TEMPLATES: {},  # refused in other words
        "userdata": {"type": "string"},
        "networks": NAMES,
        "config-drive": {"type": "boolean"},
        "console-log": {"type": "boolean"},
        "image-id": {"type": "string", "minLength": 1},
        "image-name": {"type": "string", "minLength": 1},
    },
    "anyOf": [{"required": ["flavor-name"]}, {"required": ["min-ram"]}],
    "additionalProperties": False,
}
PROVIDER_OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {"clean-floating-ips": {"type": "boolean"}, "port-cleanup-interval": {"type": "integer"}},
    "additionalProperties": False,
}
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


class _Refusal(Exception):
    """A question ends with this answer."""

    def __init__(self, answer: MachineRefused) -> None:
        super().__init__(answer.reason)
        self.answer = answer


class OpenStackServers:
    """Each call has a connection of its own, for its sockets are no other thread's."""

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        del ssh
        try:
            import openstack  # noqa: F401  # here: it takes long, and most have no need of it
        except ImportError as error:
            raise Invalid(
                f"provider {provider.name}: driver openstack needs the Python package openstacksdk; "
                "install nodepool-ocb[openstack]"
            ) from error
        self._provider = provider
        self._lock = threading.Lock()
        self._lists: dict[
            str, tuple[float, Sequence[Any]]
        ] = {}  # by kind: when it was read (monotonic), and its entries
        self._clusters: set[str] = set()  # those of the stamps that this process was given

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        return list(_faults(provider))

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
                self._forget()  # a flavor, a network or an image may have been made anew
                raise
            return self._machine(cloud, server, order.pool)

        return self._asked(create)

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        self._clusters.add(stamp.cluster)

        def find(cloud: Connection) -> Machine | None:
            for server in cloud.compute.servers(details=True):
                if MachineStamp.of(server.metadata or {}) == stamp and server.status != "DELETED":
                    return self._machine(cloud, server, self._provider.pools.get(stamp.pool))
            return None

        return self._asked(find)

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        def look(cloud: Connection) -> Machine | None:
            server = _server(cloud, external_id)
            if server is None:
                return None
            stamp = MachineStamp.of(server.metadata or {})
            pool = self._provider.pools.get(stamp.pool) if stamp is not None else None
            if stamp is not None and server.status == "ACTIVE" and self._awaits_address(cloud, server, pool):
                self._give_address(cloud, server, stamp)
                server = _server(cloud, external_id) or server
            return self._machine(cloud, server, pool)

        return self._asked(look)

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        self._clusters.add(stamp.cluster)

        def delete(cloud: Connection) -> MachineRefused | None:
            server = _server(cloud, external_id)
            if server is not None:
                found = MachineStamp.of(server.metadata or {})
                if found != stamp:
                    owner = f"that of node {found.node} of cluster {found.cluster}" if found else "none"
                    text = f"server {external_id} is not of node {stamp.node}: the stamp on it is {owner}"
                    return MachineRefused(f"provider {self._provider.name}: {text}", LaunchParty.REQUEST)
            if self._outside(cloud) is not None:
                _delete_addresses(cloud, stamp)
            if server is None:
                return None
            cloud.compute.delete_server(external_id, ignore_missing=True)
            ends = time.monotonic() + DELETE_SECONDS
            while time.monotonic() < ends:
                if _server(cloud, external_id) is None:
                    return None
                time.sleep(LOOK_SECONDS)
            text = f"server {external_id} is still there {DELETE_SECONDS:.0f} s after it was deleted"
            return MachineRefused(f"provider {self._provider.name}: {text}")

        return self._asked(delete)

    def list(self) -> Iterable[Machine]:
        def every(cloud: Connection) -> Sequence[Machine]:
            servers = [*cloud.compute.servers(details=True)]
            return [
                self._machine(cloud, each, None)
                for each in servers
                if MachineStamp.of(each.metadata or {}) is not None and each.status != "DELETED"
            ]

        found = self._asked(every)
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

        return self._asked(read)

    def close(self) -> None: ...

    # -- servers --

    def _request(self, cloud: Connection, order: MachineOrder) -> dict[str, Any]:
        """The fields of a new server. Raises _Refusal."""
        options, pool = order.label.options, order.pool.options
        asked: dict[str, Any] = {
            "name": order.name,
            "flavor_id": self._flavor(cloud, options).id,
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
        asked["networks"] = [{"uuid": self._network(cloud, name)} for name in networks] if networks else "auto"
        image = order.image or self._image(cloud, options)
        if options.get("boot-from-volume"):
            volume = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume"}
            volume |= {"volume_size": options.get("volume-size", VOLUME_GB), "delete_on_termination": True}
            asked["block_device_mapping"] = [volume]
        else:
            asked["image_id"] = image
        return asked

    def _machine(self, cloud: Connection, server: Any, pool: ProviderPool | None) -> Machine:
        addresses = list(_addresses(server))
        floating = next((each for kind, version, each in addresses if kind == "floating" and version == 4), None)
        fixed = next((each for kind, version, each in addresses if kind != "floating" and version == 4), None)
        six = next((each for _, version, each in addresses if version == 6), None)
        public = floating or server.access_ipv4 or None
        state = STATES.get(server.status or "", "building")
        if state == "running" and self._awaits_address(cloud, server, pool):
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
            resources=_used(self._known(cloud, "flavors"), server),
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
            for key, value in _used(self._known(cloud, "flavors"), server).items():
                total[key] += value
        return total

    # -- floating addresses --

    def _awaits_address(self, cloud: Connection, server: Any, pool: ProviderPool | None) -> bool:
        """Whether it is to have a floating address, and has none yet."""
        return _lacks_address(server, pool) and self._outside(cloud) is not None

    def _outside(self, cloud: Connection) -> Any:
        """The network of floating addresses; None in a cloud without one."""
        return next((each for each in self._known(cloud, "networks") if each.is_router_external), None)

    def _give_address(self, cloud: Connection, server: Any, stamp: MachineStamp) -> None:
        """Give it a floating address, unless its port has one."""
        port = next(iter(cloud.network.ports(device_id=server.id)), None)
        outside = self._outside(cloud)
        if port is None or [*cloud.network.ips(port_id=port.id)]:
            return
        cloud.network.create_ip(
            floating_network_id=outside.id, port_id=port.id, description=f"{OUR_ADDRESS}{stamp.key}"
        )

    # -- names --

    def _flavor(self, cloud: Connection, options: Mapping[str, Json]) -> Any:
        flavors = sorted(self._known(cloud, "flavors"), key=lambda each: (each.ram, each.name))
        name, ram = options.get("flavor-name"), options.get("min-ram")
        for each in flavors:
            if ram is None and name in (each.name, each.id):
                return each
            if ram is not None and each.ram >= ram and (not name or name in each.name):
                return each
        sought = f"named {name}" if ram is None else f"with {ram} MiB" + (f" and {name} in its name" if name else "")
        raise self._refusal(f"there is no flavor {sought}; correct the label")

    def _network(self, cloud: Connection, name: str) -> str:
        for each in self._known(cloud, "networks"):
            if name in (each.name, each.id):
                return str(each.id)
        raise self._refusal(f"there is no network {name}; correct `networks`")

    def _image(self, cloud: Connection, options: Mapping[str, Json]) -> str:
        if "image-id" in options:
            return str(options["image-id"])
        name = options.get("image-name")
        found = next((each for each in cloud.image.images(name=name, status="active")), None) if name else None
        if found is None:
            raise self._refusal(f"there is no active image {name}; correct `cloud-images`")
        return str(found.id)

    def _known(self, cloud: Connection, kind: str) -> Sequence[Any]:
        """Flavors or networks, as they were read a few minutes ago at most."""
        with self._lock:
            read, found = self._lists.get(kind, (0.0, ()))
        if found and time.monotonic() - read < KNOWN_SECONDS:
            return found
        found = [*cloud.compute.flavors()] if kind == "flavors" else _networks(cloud)
        with self._lock:
            self._lists[kind] = time.monotonic(), found
        return found

    def _forget(self) -> None:
        with self._lock:
            self._lists.clear()

    # -- questions --

    def _asked(self, question: Callable[[Connection], T]) -> T | MachineRefused:
        import openstack

        try:
            with contextlib.closing(
                openstack.connect(
                    cloud=self._provider.cloud,
                    region_name=self._provider.region,
                    api_timeout=ANSWER_SECONDS,
                    app_name="nodepool-ocb",
                )
            ) as cloud:
                return question(cloud)
        except _Refusal as refusal:
            return refusal.answer
        except _errors() as error:
            return self._refused(error)

    def _refusal(self, text: str) -> _Refusal:
        return _Refusal(MachineRefused(f"provider {self._provider.name}: {text}", LaunchParty.REQUEST))

    def _refused(self, error: Exception) -> MachineRefused:
        """The refusal that an error of the library means, with its party."""
        import openstack.exceptions
        from keystoneauth1 import exceptions as keystone

        status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
        text = " ".join(str(error).split())
        own = (openstack.exceptions.ConfigException, keystone.AuthPluginException)
        if "quota" in text.lower() or status == 413:
            party = LaunchParty.QUOTA
        elif isinstance(error, own) or status in (400, 404):
            party = LaunchParty.REQUEST
        else:
            party = LaunchParty.PROVIDER
        return MachineRefused(f"provider {self._provider.name}: {text}", party)


def _faults(provider: LaunchProvider) -> Iterator[str]:
    if provider.cloud is None:
        yield "key `cloud` is missing; name a cloud of clouds.yaml"
    yield from option_faults(provider, PROVIDER_OPTIONS, POOL_OPTIONS, LABEL_OPTIONS)
    for pool in provider.pools.values():
        for label in pool.labels.values():
            if TEMPLATES in label.options:
                yield (
                    f"pools[{pool.name}].labels[{label.name}].{TEMPLATES}: it would fill templates with data of requesters, "
                    "and is not obeyed; use `instance-properties`"
                )


def _metadata(own: Mapping[str, Json], order: MachineOrder) -> dict[str, str]:
    """The metadata of a server: the label's, the launcher's, and the stamp, which neither replaces."""
    texts = {str(key): str(value)[:VALUE_CHARACTERS] for key, value in {**own, **order.properties}.items()}
    return texts | order.stamp.labels


def _addresses(server: Any) -> Iterator[tuple[str, int, str]]:
    """Kind, version and text of each address."""
    for network in (server.addresses or {}).values():
        for each in network:
            yield str(each.get("OS-EXT-IPS:type", "fixed")), int(each.get("version", 4)), str(each["addr"])


def _lacks_address(server: Any, pool: ProviderPool | None) -> bool:
    """Whether its pool wants a floating address for it, and it has none yet: ``auto-floating-ip`` is on by default."""
    if pool is None or not pool.options.get("auto-floating-ip", True) or server.access_ipv4:
        return False
    kinds = {kind for kind, version, _ in _addresses(server) if version == 4}
    return kinds == {"fixed"}


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


def _networks(cloud: Connection) -> list[Any]:
    """The networks; none in a cloud without Neutron."""
    from keystoneauth1.exceptions import EndpointNotFound

    try:
        return [*cloud.network.networks()]
    except EndpointNotFound:
        return []


def _delete_addresses(cloud: Connection, stamp: MachineStamp) -> None:
    """Delete the floating addresses that were made for the machine."""
    for each in cloud.network.ips():
        if each.description == f"{OUR_ADDRESS}{stamp.key}":
            cloud.network.delete_ip(each.id, ignore_missing=True)


def _bad_request() -> type[Exception]:
    from openstack.exceptions import BadRequestException

    return BadRequestException


def _errors() -> tuple[type[Exception], ...]:
    """The exceptions of openstacksdk, and of the libraries that it lets through."""
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from requests import RequestException

    return (SDKException, ClientException, RequestException, OSError)
