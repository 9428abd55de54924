"""Networks: one a row, one with its slices, and the addresses of one."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.networks import Network
from nodepool_ocb.provisioning.addressing import slices
from nodepool_ocb.provisioning.addressing.found import FoundAddress
from nodepool_ocb.views.view import View


class NetworkRow(View, frozen=True, kw_only=True):
    """A network at a glance."""

    name: str
    subnet: str | None
    subnet6: str | None
    vlan: int | None
    domain: str | None
    host: str | None  # the range of fixed addresses
    dhcp: str | None  # the dynamic range
    servers: tuple[str, ...]  # the admin nodes with a slice
    addresses: int  # allocated to nodes


class NetworkDocument(View, frozen=True, kw_only=True):
    """One network."""

    name: str
    record: Network
    parts: Mapping[str, Mapping[str, str]]  # admin node → dynamic range ("dhcp", "dhcp6", a segment) → its part


class AddressRow(View, frozen=True, kw_only=True):
    """An address with a record."""

    address: str
    node: str | None  # None: in quarantine, or free again
    mac: str | None  # the first one of the node at the allocation
    since: float | None
    former: str | None  # in quarantine: the node that had it
    free: float | None  # when it may be allocated again
    reason: str | None  # why the record cannot be read


def rows(networks: Mapping[str, Network], world: World) -> list[NetworkRow]:
    """All networks, by name; the addresses are counted in the records of nodes."""
    records = [view.record for view in world.nodes.values() if view.record is not None]
    return [
        NetworkRow(
            name=name,
            subnet=each.subnet or None,
            subnet6=each.subnet6 or None,
            vlan=each.vlan,
            domain=each.domain or None,
            host=each.ranges.get("host"),
            dhcp=each.ranges.get("dhcp"),
            servers=tuple(sorted(each.slices, key=lambda server: each.slices[server])),
            addresses=sum(len(node.networks.get(name, ())) for node in records),
        )
        for name, each in sorted(networks.items())
    ]


def document(name: str, network: Network) -> NetworkDocument:
    """One network."""
    parts = {server: slices.parts(network, server) for server in sorted(network.slices)}
    return NetworkDocument(name=name, record=network, parts=parts)


def addresses(network: Network, found: Mapping[str, FoundAddress]) -> list[AddressRow]:
    """The addresses with a record, IPv4 before IPv6, by number."""
    return [_row(text, found[text], network) for text in sorted(found, key=_number)]


def _row(text: str, found: FoundAddress, network: Network) -> AddressRow:
    record = found.record
    over = record is not None and record.node is None
    return AddressRow(
        address=text,
        node=record.node if record else None,
        mac=record.mac if record else None,
        since=(found.written if over else record.since) if record else None,
        former=record.former if record else None,
        free=found.written + network.quarantine_seconds if over else None,
        reason=None if record else "the record cannot be read",
    )


def _number(text: str) -> tuple[int, int]:
    try:
        found = ip_address(text)
    except ValueError:
        return 0, 0  # a hand made it
    return found.version, int(found)
