"""Where a machine is: ``host``, ``host:port``, ``[v6]`` or ``[v6]:port``; a bare IPv6 address has no port.

An address means one machine in one way: a number that libraries read differently (``010.0.0.1``, ``2130706433``) is none, and no
two nodes have the same. Two nodes that are one machine would give it orders of two epochs. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import ranges
from nodepool_ocb.model.records import Node

PORT: Final = 22

_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMERIC: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_WRITE: Final = "write HOST, or HOST:PORT for another port than 22; with a port, write an IPv6 address in brackets"


def parse(address: str) -> tuple[str, int]:
    """Host and port; raises ValueError with a sentence.

    >>> parse("n1.example.com"), parse("10.0.0.1:2222"), parse("[fe80::1%eth0]:2222"), parse("fe80::1")
    (('n1.example.com', 22), ('10.0.0.1', 2222), ('fe80::1%eth0', 2222), ('fe80::1', 22))
    """
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"address {address!r}: write [IPv6] or [IPv6]:PORT")
        return host, _port(rest[1:], address) if rest else PORT
    if address.count(":") != 1:
        return address, PORT
    host, _, port = address.partition(":")
    return host, _port(port, address)


def _port(text: str, address: str) -> int:
    found = ranges.port(text)
    if found is None:
        raise ValueError(f"address {address!r}: {text!r} is no port; write a number from 1 to 65535")
    return found


@lru_cache(maxsize=65536)
def canonical(address: str) -> tuple[str, int]:
    """Host and port in the one form that equal addresses share; raises ValueError with a sentence.

    >>> canonical("N1.Example.com"), canonical("[2001:DB8::0:1]:2222"), canonical("::ffff:10.0.0.1")
    (('n1.example.com', 22), ('2001:db8::1', 2222), ('10.0.0.1', 22))
    """
    host, port = parse(address)
    number = _number(host)
    if number is None:
        labels = host.removesuffix(".").split(".")
        if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)) or _NUMERIC.fullmatch(labels[-1]):
            raise ValueError(f"address {address!r}: {host!r} is neither a host name nor an address; {_WRITE}")
        return ".".join(labels).lower(), port
    if number.is_unspecified or number.is_multicast or number == IPv4Address("255.255.255.255"):
        raise ValueError(f"address {address!r}: {host} is not the address of a machine; {_WRITE}")
    return str(number), port


def _number(host: str) -> IPv4Address | IPv6Address | None:
    try:
        number = ip_address(host)
    except ValueError:
        return None
    mapped = number.ipv4_mapped if isinstance(number, IPv6Address) else None
    return mapped or number


def check(world: World, fqdn: str, addresses: Sequence[str]) -> None:
    """Raises Invalid for addresses that are none, or are twice there, and Conflict if another node has one of them."""
    problems: list[str] = []
    found: list[tuple[str, int]] = []
    for address in addresses:
        try:
            found.append(canonical(address))
        except ValueError as wrong:
            problems.append(str(wrong))
    problems += [
        f"address {host} port {port} is there twice; remove one of them"
        for (host, port), n in Counter(found).items()
        if n > 1
    ]
    if problems:
        raise Invalid(problems)
    for other, endpoint in _elsewhere(world, fqdn, frozenset(found)) if found else ():
        raise Conflict(
            f"node {other} is at {endpoint[0]} port {endpoint[1]} already, and one machine is one node; give {fqdn}"
            f" an address of its own; only if {other} is the same machine: nodepool-ocb node delete {other}"
        )


def doubles(world: World, fqdn: str) -> list[str]:
    """Other nodes with an address, a name or a host key of this one: very probably the same machine."""
    view = world.nodes.get(fqdn)
    if view is None or view.record is None:
        return []
    keys = set(view.record.host_keys)
    found = {other for other, _ in _elsewhere(world, fqdn, _endpoints(fqdn, view.record.addresses))}
    found |= {name for name, each in world.nodes.items() if each.record and keys & set(each.record.host_keys)}
    return sorted(found - {fqdn})


def nodes_at(world: World, host: str) -> list[str]:
    """The nodes with this address or name, at the usual port."""
    return [name for name, _ in _elsewhere(world, "", frozenset({(host, PORT)}))]


Endpoint: TypeAlias = tuple[str, int]


def _elsewhere(world: World, fqdn: str, wanted: frozenset[Endpoint]) -> Iterator[tuple[str, Endpoint]]:
    """Each other node at one of these endpoints, with that endpoint."""
    if not isinstance(world.places, _EndpointIndex):
        world.places = _EndpointIndex(world)
    for endpoint in sorted(wanted):
        for name in world.places.at(endpoint):
            if name != fqdn:
                yield name, endpoint


class _EndpointIndex:
    """Which nodes are at an endpoint: each new node is looked up, and not compared with all others."""

    def __init__(self, world: World) -> None:
        self._endpoints: dict[str, frozenset[Endpoint]] = {}
        self._nodes: dict[Endpoint, dict[str, None]] = {}
        for name, view in world.nodes.items():
            self.put(name, view.record)

    def at(self, endpoint: Endpoint) -> Iterable[str]:
        return self._nodes.get(endpoint, ())

    def put(self, fqdn: str, record: Node | None) -> None:
        there = frozenset[Endpoint]() if record is None or record.virtual else _endpoints(fqdn, record.addresses)
        before = self._endpoints.pop(fqdn, frozenset[Endpoint]())
        for endpoint in before - there:
            self._nodes[endpoint].pop(fqdn)
            if not self._nodes[endpoint]:
                del self._nodes[endpoint]
        for endpoint in there - before:
            self._nodes.setdefault(endpoint, {})[fqdn] = None
        if there:
            self._endpoints[fqdn] = there


def _endpoints(fqdn: str, addresses: tuple[str, ...]) -> frozenset[Endpoint]:
    """The endpoints of a node: its addresses, and its own name."""
    found = {(fqdn, PORT)}
    for address in addresses:
        with suppress(ValueError):  # a hand wrote it
            found.add(canonical(address))
    return frozenset(found)
