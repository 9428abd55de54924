"""The MACs and addresses that a node holds: the records that come with the node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import MacOwner, NetworkAddress
from nodepool_ocb.model.records import Create, Node

#: The places of these records.
FOLDERS: Final = (f"{paths.MACS}/", f"{paths.NETWORKS}/")


def created(fqdn: str, node: Node, now: float) -> Iterator[Create]:
    """The records of all MACs and addresses that the record of a node names."""
    for mac in node.macs:
        yield Create(paths.mac(mac), MacOwner(node=fqdn))
    for network, addresses in node.networks.items():
        for address in addresses:
            yield Create(paths.network_address(network, address), allocated(fqdn, node, now))


def allocated(fqdn: str, node: Node, now: float) -> NetworkAddress:
    """The record of an address of this node."""
    return NetworkAddress(node=fqdn, mac=node.macs[0] if node.macs else None, since=now)


def places(node: Node) -> list[str]:
    """The paths of these records."""
    macs = [paths.mac(mac) for mac in node.macs]
    return macs + [paths.network_address(network, each) for network, all_ in node.networks.items() for each in all_]
