"""Addresses of dynamic ranges, which a machine has until it knows its own: they are no lasting addresses of a node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning.addressing.addressranges import Address, AddressRange, span


def lasting(world: World, node: Node) -> tuple[str, ...]:
    """The addresses of a node that is reached at those of its networks: without the leases that it had there before.

    All of them for a node without an address in a network.
    """
    networks = world.of(Network)
    ranges = [each for name in node.networks if name in networks for each in dynamic(networks[name].record)]
    return tuple(each for each in node.addresses if not _leased(each, ranges))


def dynamic(network: Network) -> Iterator[AddressRange]:
    """The dynamic ranges of a network and of its segments, as far as they can be read."""
    texts = [network.ranges.get("dhcp", ""), network.ranges.get("dhcp6", "")]
    for text in (*texts, *(segment.dhcp for segment in network.segments)):
        with suppress(ValueError):
            yield span(text)


def named(address: str) -> Address | None:
    """The IP address of "address", "address:port" or "[address]:port"; None for the name of a host.

    >>> str(named("10.1.0.7:2222")), str(named("[fd00::7]")), named("n1.example.com")
    ('10.1.0.7', 'fd00::7', None)
    """
    text = address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]
    try:
        return ip_address(text)
    except ValueError:
        return None


def _leased(address: str, ranges: list[AddressRange]) -> bool:
    found = named(address)
    return found is not None and any(found in each for each in ranges)
