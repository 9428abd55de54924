"""The rules for a network: its ranges lie in its subnets, do not overlap, and leave its router out. Pure.

Each fault names the key and the next step. All faults of a network are reported together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Final

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.networks import RANGES, Network
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.provisioning.addressing.addressranges import Address, AddressRange, Subnet, span

SERVERS: Final = 8  # the most name servers, and the most servers of NTP
SEGMENTS: Final = 64
PREFIXES: Final = {4: (8, 30), 6: (16, 126)}


def checked(name: str, network: Network, others: Mapping[str, Stored[Network]]) -> Network:
    """The same network. Raises Invalid with each fault; ``others``: the networks that exist."""
    problems: list[str] = []
    if not is_name(name):
        problems.append("its name is not of small letters, digits, '-', '_' and '.', at most 63; write another")
    problems += [*_of_values(network), *_of_slices(network)]
    for part in _parts(network):
        problems += part.faults(network.slice_count)
    problems += _of_segments(network)
    problems += _of_others(name, network, others)
    if problems:
        raise Invalid([f"network {name}: {problem}" for problem in problems])
    return network


def subnets(network: Network) -> list[Subnet]:
    """Those of the network and of its segments, as far as they are subnets."""
    found: list[Subnet] = []
    for text in (network.subnet, network.subnet6, *(segment.subnet for segment in network.segments)):
        with suppress(ValueError):
            found += [ip_network(text)] if text else []
    return found


def refuse_outside(name: str, after: Network, world: World) -> None:
    """Raises Conflict for allocated addresses that would be in no subnet; the records of nodes name them."""
    there = subnets(after)
    outside = [
        f"{text} ({fqdn})"
        for fqdn, view in sorted(world.nodes.items())
        for text in (view.record.networks.get(name, ()) if view.record is not None else ())
        if (address := _address(text)) is None or not any(address in subnet for subnet in there)
    ]
    if outside:
        raise Conflict(
            f"network {name}: {some(outside)} would be in no subnet; first: nodepool-ocb network release {name} NODE"
        )


class _Part:
    """A subnet with its router and ranges; ``key`` and its like are the names for people."""

    def __init__(self, family: int, key: str, subnet: str, router: tuple[str, str], ranges: Mapping[str, str]) -> None:
        self.family = family
        self.key = key
        self.subnet = subnet
        self.router = router  # key, text
        self.ranges = ranges  # key → text; the key of a dynamic one ends with "dhcp" or "dhcp6"

    def faults(self, slice_count: int) -> Iterator[str]:
        if not self.subnet:
            for key in [*([self.router[0]] if self.router[1] else []), *self.ranges]:
                yield f"{key}: there is no {self.key}; write it, or leave this out"
            return
        try:
            subnet = self._checked_subnet()
        except ValueError as wrong:
            yield f"{self.key}: {wrong}"
            return
        router = None
        if self.router[1]:
            router = _address(self.router[1])
            if router is None or not (_usable(subnet, router) or (router.version == 6 and router.is_link_local)):
                yield f"{self.router[0]}: {self.router[1]!r} is no machine's address in {subnet}; write one of it"
        yield from self._of_ranges(subnet, router, slice_count)

    def _checked_subnet(self) -> Subnet:
        example = "10.1.0.0/24" if self.family == 4 else "fd00:1::/64"
        try:
            subnet = ip_network(self.subnet)
        except ValueError as wrong:
            raise ValueError(f"{wrong}; write it as {example}") from None
        low, high = PREFIXES[self.family]
        if subnet.version != self.family or not low <= subnet.prefixlen <= high:
            raise ValueError(f"{subnet} is no subnet of IPv{self.family} from /{low} to /{high}; write it as {example}")
        if subnet.is_loopback or subnet.is_multicast or subnet.is_link_local or subnet.is_unspecified:
            raise ValueError(f"{subnet} has no addresses for machines; write one as {example}")
        return subnet

    def _of_ranges(self, subnet: Subnet, router: Address | None, slice_count: int) -> Iterator[str]:
        found: dict[str, AddressRange] = {}
        for key, text in self.ranges.items():
            try:
                one = span(text)
            except ValueError as wrong:
                yield f"{key}: {wrong}"
                continue
            if not (_usable(subnet, one.first) and _usable(subnet, one.last)):
                yield f"{key}: {one} is not inside {subnet}, without its first and last address; write another range"
            if router is not None and router in one:
                yield f"{key}: {one} has the router {router}; leave it out of the range"
            if key.removesuffix("6").endswith("dhcp") and one.size < slice_count:
                yield f"{key}: {one.size} addresses are fewer than {slice_count} slices; widen it, or write slice_count="
            for other, span_ in found.items():
                if span_.meets(one):
                    yield f"{key}: {one} overlaps {other}, which is {span_}; make them disjoint"
            found[key] = one


def _parts(network: Network) -> Iterator[_Part]:
    for family, suffix in ((4, ""), (6, "6")):
        ranges = {
            f"ranges.{key}": text
            for key, text in network.ranges.items()
            if key in RANGES and key.endswith("6") == (family == 6)
        }
        router: str = getattr(network, f"router{suffix}")
        yield _Part(family, f"subnet{suffix}", getattr(network, f"subnet{suffix}"), (f"router{suffix}", router), ranges)


def _of_values(network: Network) -> Iterator[str]:
    if not network.subnet and not network.subnet6:
        yield "subnet: there is none; write subnet=10.1.0.0/24, or subnet6=fd00:1::/64"
    if network.domain and not is_node(network.domain):
        yield f"domain: {network.domain!r} is no domain; write one as example.com"
    for key, texts in (("nameservers", network.nameservers), ("ntp", network.ntp)):
        if len(texts) > SERVERS:
            yield f"{key}: {len(texts)} are more than machines take; write at most {SERVERS}"
        for text in texts:
            if _address(text) is None:
                yield f"{key}: {text!r} is no address; write addresses, with commas between"
    for key in network.ranges:
        if key not in RANGES:
            yield f"ranges.{key}: there is no such range; write one of {', '.join(RANGES)}"
    if network.proxy and network.ranges.keys() & {"dhcp", "dhcp6"}:
        yield "ranges.dhcp: with proxy=true the existing DHCP server assigns addresses; take out ranges.dhcp, or proxy"
    if network.subnet6 and network.mtu < 1280:
        yield f"mtu: IPv6 needs 1280 at least, and it is {network.mtu}; raise it"
    if high := sorted(server for server, index in network.slices.items() if index >= network.slice_count):
        yield f"slice_count: {', '.join(high)} has a higher slice; first: nodepool-ocb network unserve NETWORK NODE"


def _of_slices(network: Network) -> Iterator[str]:
    if len({*network.slices.values()}) < len(network.slices):
        yield "slices: two servers have one slice; write a number of its own for each"
    for server in network.slices:
        if not is_node(server):
            yield f"slices: {server!r} is no name of a node; write one as admin1.example.com"


def _of_segments(network: Network) -> Iterator[str]:
    if len(network.segments) > SEGMENTS:
        yield f"segments: {len(network.segments)} are more than one network may have ({SEGMENTS}); make another network"
        return
    seen: list[Subnet] = subnets(network)[:1] if network.subnet else []
    for segment in network.segments:
        key = f"segments {segment.subnet}"
        ranges = {f"{key} {name}": text for name, text in (("dhcp", segment.dhcp), ("host", segment.host)) if text}
        faults = list(
            _Part(4, key, segment.subnet, (f"{key} router", segment.router), ranges).faults(network.slice_count)
        )
        yield from faults
        if not segment.router or not network.subnet:
            yield f"{key}: it needs its own router, which relays DHCP, and a subnet of the network; write both"
        if faults:
            continue
        own = ip_network(segment.subnet)
        if any(each.version == own.version and each.overlaps(own) for each in seen):
            yield f"{key}: it overlaps another subnet of the network; give each L2 segment its own"
        seen.append(own)


def _of_others(name: str, network: Network, others: Mapping[str, Stored[Network]]) -> Iterator[str]:
    for other, stored in sorted(others.items()):
        for there in subnets(stored.record) if other != name else ():
            for own in subnets(network):
                if own.version == there.version and own.overlaps(there):
                    yield f"subnet {own} overlaps {there} of network {other}; write another one"


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _usable(subnet: Subnet, address: Address) -> bool:
    """Whether it may be the address of one machine there."""
    if address.version != subnet.version or address not in subnet:
        return False
    return address != subnet.network_address and (subnet.version == 6 or address != subnet.broadcast_address)
