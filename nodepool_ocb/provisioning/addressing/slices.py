"""The part of each dynamic range that belongs to one admin node.

Several servers of DHCP on one network never offer the same address, because each has a part of its own. A part is a place among
``slice_count``, so it does not depend on the other servers: one that goes or comes moves no part. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.networks import Network
from nodepool_ocb.provisioning.addressing.addressranges import span


def parts(network: Network, fqdn: str) -> Mapping[str, str]:
    """The parts of an admin node: "dhcp", "dhcp6", and the subnet of each segment with a dynamic range. Empty without a slice."""
    index = network.slices.get(fqdn)
    if index is None:
        return {}
    dynamic = {key: network.ranges[key] for key in ("dhcp", "dhcp6") if key in network.ranges}
    dynamic |= {segment.subnet: segment.dhcp for segment in network.segments if segment.dhcp}
    return {key: str(span(text).part(index, network.slice_count)) for key, text in dynamic.items()}


def served(name: str, network: Network, fqdn: str, admins: Collection[str]) -> Network:
    """The network with the lowest free slice for an admin node; as it is if the node has one.

    A slice of a node that is no admin node any more is free. Raises Conflict if each slice has a node.
    """
    there = {server: index for server, index in network.slices.items() if server in admins}
    if fqdn in there:
        return network
    free = sorted(set(range(network.slice_count)) - {*there.values()})
    if not free:
        raise Conflict(
            f"network {name} has {network.slice_count} slices, and each has a server: {', '.join(sorted(there))};"
            f" first: nodepool-ocb network unserve {name} NODE, or: network set {name} slice_count=N"
        )
    return replace(network, slices={**there, fqdn: free[0]})


def unserved(network: Network, fqdn: str) -> Network:
    """The network without the slice of this node."""
    return replace(network, slices={server: index for server, index in network.slices.items() if server != fqdn})
