"""The order in which a machine asks HTTP servers for its image: the nearest first, so that images cross no router in vain. Pure.

A server in the subnet of the machine is nearest, then one in another segment of the same network, then any other one. Of equally
near servers each machine has its own order, so a rollout loads all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from enum import IntEnum
from ipaddress import ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.networks import Network
from nodepool_ocb.provisioning import publications
from nodepool_ocb.provisioning.addressing.leases import named

#: The network, and the subnet within it, in which an address is.
NamedSubnet: TypeAlias = tuple[str, str]


class Nearness(IntEnum):
    """The distance of a server, as the networks of the cluster tell it."""

    SUBNET = 0  # no router is between
    NETWORK = 1  # another segment of the same network
    ELSEWHERE = 2  # or unknown


NEAREST: Final = Nearness.SUBNET


def sources(world: World, fqdn: str, caller: str, path: str) -> list[str]:
    """The URLs of an image for a node. ``path`` itself counts from the server that booted the machine.

    ``caller``: the address from which the machine speaks now; it may be of a dynamic range. The server of the boot comes behind
    the nearest ones, which it usually is one of, and before the others.
    """
    here = {subnet for text in _own(world, fqdn, caller) for subnet in _subnets_of(world, text)}
    ranked = sorted((_nearness(world, here, each), _draw(fqdn, each), each) for each in publications.addresses(world))
    near = [f"{each}/{path}" for rank, _, each in ranked if rank is NEAREST]
    return [*near, path, *(f"{each}/{path}" for rank, _, each in ranked if rank is not NEAREST)]


def _own(world: World, fqdn: str, caller: str) -> Iterator[str]:
    yield caller
    view = world.nodes.get(fqdn)
    if view is not None and view.record is not None:
        for addresses in view.record.networks.values():
            yield from addresses


def _nearness(world: World, here: Set[NamedSubnet], server: str) -> Nearness:
    there = set(_subnets_of(world, urlsplit(server).hostname or ""))
    if here & there:
        return Nearness.SUBNET
    return Nearness.NETWORK if {name for name, _ in here} & {name for name, _ in there} else Nearness.ELSEWHERE


def _subnets_of(world: World, text: str) -> Iterator[NamedSubnet]:
    """The subnets with this address; none for the name of a host."""
    address = named(f"[{text}]" if text.count(":") > 1 else text)
    for name, stored in world.of(Network).items():
        for subnet in _subnets(stored.record):
            with suppress(ValueError):
                if address is not None and address in ip_network(subnet):
                    yield name, subnet


def _subnets(network: Network) -> Iterable[str]:
    found = (network.subnet, network.subnet6, *(segment.subnet for segment in network.segments))
    return (each for each in found if each)


def _draw(fqdn: str, server: str) -> str:
    """The place of a server among equally near ones, for this node."""
    return hashlib.sha256(f"{fqdn} {server}".encode()).hexdigest()
