"""Servers of DHCP that are not ours: admin nodes ask for an address now and then, and note each server that offers one. Pure.

Each admin node asks with a MAC of its own, which the configuration of all our servers ignores. A server is a stranger if it
answers on a network of the cluster and has no address of an admin node. In a network of proxy mode another server assigns
the addresses, so only one that offers a boot file without an address is a stranger there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, ip_interface, ip_network
from typing import Any, Final

import msgspec

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.boot import HeardServer, Publisher
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Json
from nodepool_ocb.provisioning import boot

MOST: Final = 20  # servers, and own addresses, that one admin node notes
LONGEST_FAULT: Final = 200  # characters
NO_ADDRESS: Final = "0.0.0.0"  # offered by a server that gives a boot file alone


class StrangeServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of DHCP that is not ours."""

    server: str  # its address
    network: str
    offered: str
    heard_by: str  # an admin node
    interface: str
    at: float
    more: bool = False  # that admin node could not note all that answered

    @property
    def sentence(self) -> str:
        """For people."""
        offer = "a boot file" if self.offered == NO_ADDRESS else self.offered
        return (
            f"a server of DHCP that is not ours, {self.server}, offers {offer} on network {self.network}"
            f" ({self.interface} of {self.heard_by}); machines there may boot its files: switch it off, or block it at the switch"
        )


def mac(fqdn: str) -> str:
    """The MAC with which this admin node asks.

    >>> mac("a1.example.com")
    '02:4b:c0:78:92:9c'
    """
    digits = "02" + hashlib.sha256(fqdn.encode()).hexdigest()[:10]
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def ignored(world: World) -> Iterator[str]:
    """The MACs that our servers do not answer."""
    yield from (mac(name) for name, view in sorted(world.nodes.items()) if boot.DHCP in view.noderoles)


def noted(given: Mapping[str, Json], now: float) -> dict[str, Any]:
    """The fields of the record of a publisher, from the values that its run gave back; empty if it did not look."""
    fault = given.get("fault")
    if isinstance(fault, str) and fault:
        return {"listened": now, "fault": fault[:LONGEST_FAULT]}
    try:
        heard = msgspec.convert(given.get("heard"), tuple[HeardServer, ...])
        addresses = msgspec.convert(given.get("addresses"), tuple[str, ...])
        for each in heard:
            (IPv4Address(each.server), IPv4Address(each.offered), ip_interface(each.own))
        addresses = tuple(str(IPv4Address(each)) for each in addresses)
    except (msgspec.ValidationError, ValueError):
        return {}
    more = given.get("more") is True or len(heard) > MOST
    return {"heard": heard[:MOST], "addresses": addresses[:MOST], "more": more, "listened": now, "fault": ""}


def due(world: World, noderole: str, now: float, every_seconds: float) -> bool:
    """Whether this publisher is to look again; 0: never."""
    found = world.of(Publisher).get(noderole)
    return every_seconds > 0 and found is not None and now >= found.record.listened + every_seconds


def strangers(world: World) -> tuple[StrangeServer, ...]:
    """The servers that are not ours, each once for each admin node that heard it."""
    publishers = {name: stored.record for name, stored in sorted(world.of(Publisher).items())}
    ours = {address for each in publishers.values() for address in each.addresses}
    found = []
    for noderole, record in publishers.items():
        vertex = world.vertex(noderole)  # None also for a record with a name that is none
        if vertex is None:
            continue  # its last look has no successor
        for each in record.heard:
            name, network = _network(world, each.own)
            if network is None or each.server in ours or (network.proxy and each.offered != NO_ADDRESS):
                continue
            found.append(
                StrangeServer(
                    server=each.server,
                    network=name,
                    offered=each.offered,
                    heard_by=vertex.node.name,
                    interface=each.interface,
                    at=record.listened,
                    more=record.more,
                )
            )
    return tuple(found)


def _network(world: World, own: str) -> tuple[str, Network | None]:
    """The network of an interface of an admin node, by its address."""
    address = ip_interface(own).ip
    for name, stored in sorted(world.of(Network).items()):
        if stored.record.subnet and address in ip_network(stored.record.subnet):
            return name, stored.record
    return "", None
