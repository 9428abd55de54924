"""Which network has an address, and which ranges a node may have addresses of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Interface, ip_address

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model.networks import Network
from nodepool_ocb.provisioning.addressing.addressranges import Address, AddressRange, span
from nodepool_ocb.provisioning.addressing.networks import subnets

Networks = Mapping[str, Stored[Network]]


def known(networks: Networks, name: str) -> Network:
    """Raises NotFound."""
    if name not in networks:
        there = ", ".join(sorted(networks)) or "none"
        raise NotFound(f"network {name} does not exist; there are: {there}; see: nodepool-ocb network create")
    return networks[name].record


def automatic(network: Network, *, admin: bool) -> list[AddressRange]:
    """The ranges of which a node gets the lowest free address: at most one of each family, IPv4 first."""
    keys = (("admin", "host"), ("admin6", "host6")) if admin else (("host",), ("host6",))
    found = [next((network.ranges[key] for key in of_family if key in network.ranges), None) for of_family in keys]
    return [span(text) for text in found if text is not None]


def hinted(networks: Networks, text: str, *, admin: bool) -> tuple[str, str]:
    """The network of the hint admin-v4addr, and the address without a prefix. Raises Conflict with the reason."""
    interface = IPv4Interface(text)
    name = containing(networks, str(interface.ip), admin=admin)
    [subnet] = [each for each in subnets(networks[name].record) if each.version == 4 and interface.ip in each]
    if "/" in text and interface.network != subnet:
        raise Conflict(
            f"hint admin-v4addr={text}: network {name} has {subnet}; write {interface.ip}/{subnet.prefixlen}"
        )
    return name, str(interface.ip)


def containing(networks: Networks, text: str, *, admin: bool) -> str:
    """The network with this address in a range for such nodes. Raises Conflict with the reason."""
    wanted = address(text)
    for name, stored in sorted(networks.items()):
        if any(wanted.version == each.version and wanted in each for each in subnets(stored.record)):
            check(name, stored.record, wanted, admin=admin)
            return name
    there = ", ".join(f"{name} {each}" for name, stored in sorted(networks.items()) for each in subnets(stored.record))
    raise Conflict(f"no network has {wanted}; there are: {there}; choose an address of one of them")


def check(name: str, network: Network, wanted: Address, *, admin: bool) -> None:
    """Raises Conflict if such a node may not have this address in the network."""
    allowed = _ranges(network, admin)
    if any(wanted in each for each in allowed.values()):
        return
    listed = ", ".join(f"{key} is {each}" for key, each in allowed.items()) or "it has none"
    raise Conflict(
        f"{wanted} is outside of the {'ranges for admin nodes' if admin else 'host range'} of network {name} ({listed});"
        f" choose another address, or change the range: nodepool-ocb network set {name} ranges.host=FIRST-LAST"
    )


def address(text: str) -> Address:
    """Raises Invalid.

    >>> address("fd00::0:1")
    IPv6Address('fd00::1')
    """
    try:
        return ip_address(text)
    except ValueError:
        raise Invalid(f"{text!r} is no address; write one as 10.1.0.7") from None


def _ranges(network: Network, admin: bool) -> dict[str, AddressRange]:
    keys = ("admin", "host", "admin6", "host6") if admin else ("host", "host6")
    found = {f"ranges.{key}": span(network.ranges[key]) for key in keys if key in network.ranges}
    return found | {f"host of segment {each.subnet}": span(each.host) for each in network.segments if each.host}
