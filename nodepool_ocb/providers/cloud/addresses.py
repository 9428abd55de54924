"""The addresses of servers, and the floating addresses that servers get and lose.

A floating address belongs to the server's port, and has the stamp's key in its description. It is deleted before the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from nodepool_ocb.pool.configuration import ProviderPool
from nodepool_ocb.providers.cloud.names import CloudNames
from nodepool_ocb.providers.machines import MachineStamp

if TYPE_CHECKING:
    from openstack.connection import Connection

OUR_ADDRESS: Final = "nodepool_ocb "  # the beginning of a floating address's description


class FloatingAddresses:
    """The floating addresses of one provider's servers."""

    def __init__(self, names: CloudNames) -> None:
        self._names = names

    def awaited(self, cloud: Connection, server: Any, pool: ProviderPool | None) -> bool:
        """Whether it is to have a floating address, and has none yet."""
        return lacks_address(server, pool) and self._outside(cloud) is not None

    def _outside(self, cloud: Connection) -> Any:
        """The network of floating addresses; None in a cloud without one."""
        return next((each for each in self._names.known(cloud, "networks") if each.is_router_external), None)

    def give(self, cloud: Connection, server: Any, stamp: MachineStamp) -> None:
        """Give it a floating address, unless its port has one."""
        port = next(iter(cloud.network.ports(device_id=server.id)), None)
        outside = self._outside(cloud)
        if port is None or [*cloud.network.ips(port_id=port.id)]:
            return
        cloud.network.create_ip(
            floating_network_id=outside.id, port_id=port.id, description=f"{OUR_ADDRESS}{stamp.key}"
        )

    def delete(self, cloud: Connection, stamp: MachineStamp) -> None:
        """Delete the floating addresses that were made for the machine."""
        if self._outside(cloud) is None:
            return
        for each in cloud.network.ips():
            if each.description == f"{OUR_ADDRESS}{stamp.key}":
                cloud.network.delete_ip(each.id, ignore_missing=True)


def addresses(server: Any) -> Iterator[tuple[str, int, str]]:
    """Kind, version and text of each address."""
    for network in (server.addresses or {}).values():
        for each in network:
            yield str(each.get("OS-EXT-IPS:type", "fixed")), int(each.get("version", 4)), str(each["addr"])


def lacks_address(server: Any, pool: ProviderPool | None) -> bool:
    """Whether its pool wants a floating address for it, and it has none yet: ``auto-floating-ip`` is on by default."""
    if pool is None or not pool.options.get("auto-floating-ip", True) or server.access_ipv4:
        return False
    kinds = {kind for kind, version, _ in addresses(server) if version == 4}
    return kinds == {"fixed"}
