"""Which node has which MAC and which address, for decisions one after the other: each sees those before it. Pure.

A MAC has one owner, and an address one node. A free address has no record, or one that is over: its quarantine has passed, or
its node does not exist. An address at which another node is, without a record, is not free. Each refusal is a Conflict that
names the owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from nodepool_ocb.engine import addressing
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import MacOwner, Network, NetworkAddress
from nodepool_ocb.model.records import Change, Create, Delete, Set
from nodepool_ocb.provisioning.addressing.addressranges import Address, AddressRange
from nodepool_ocb.provisioning.addressing.found import FoundAddress, FoundHoldings

SWEPT: Final = 20  # records of addresses that are over, which an allocation deletes besides


class HoldingsLedger:
    """The records as they were read, and the decisions since."""

    def __init__(self, world: World, found: FoundHoldings, now: float) -> None:
        self.world = world
        self.networks: Mapping[str, Stored[Network]] = world.of(Network)
        self._found = found
        self._now = now
        self._macs: dict[str, str] = {}  # those that earlier decisions gave → node
        self._given: dict[tuple[str, str], str] = {}  # network and address, likewise
        self._freed: set[str] = set()  # paths of records that earlier decisions deleted

    def note(self, changes: Iterable[Change]) -> None:
        """Take note of changes that no read shows: those of a dry run."""
        for change in changes:
            if not isinstance(change, Create):
                continue
            match change.path.split("/")[2:], change.data:
                case ["macs", mac], MacOwner() as owner:
                    self._macs[mac] = owner.node
                case ["networks", network, "addresses", address], NetworkAddress() as record:
                    self._given[network, address] = record.node or ""

    # -- MACs --

    def own(self, mac: str, fqdn: str) -> list[Change]:
        """Take note that the node owns it; the changes before the creation of its record. Raises Conflict."""
        other = self._macs.get(mac)
        found = self._found.owners.get(mac)
        changes: list[Change] = []
        if other is None and found is not None and paths.mac(mac) not in self._freed:
            if found.record is None:
                raise Conflict(f"the owner of {mac} cannot be read; see: nodepool-ocb record show {paths.mac(mac)}")
            other = found.record.node
            if other != fqdn and not self._exists(other):  # an old version deleted that node, and left this
                other, changes = None, [Delete(paths.mac(mac), found.version)]
        if other is not None and other != fqdn:
            raise Conflict(
                f"node {other} has the MAC {mac} already, and one machine is one node; correct it, or first:"
                f" nodepool-ocb node set {other} macs=, or node delete {other}"
            )
        self._macs[mac] = fqdn
        return changes

    def disown(self, mac: str, fqdn: str) -> list[Change]:
        """The deletion of its record, if this node owns it."""
        found = self._found.owners.get(mac)
        self._macs.pop(mac, None)
        if found is None or (found.record is not None and found.record.node != fqdn):
            return []
        self._freed.add(paths.mac(mac))
        return [Delete(paths.mac(mac), found.version)]

    # -- addresses --

    def take(self, network: str, address: str, fqdn: str) -> list[Change]:
        """Take note that the node has this address; the changes before the creation of its record. Raises Conflict."""
        changes = self._clear(network, address, fqdn)
        if at := [each for each in addressing.nodes_at(self.world, address) if each != fqdn]:
            raise Conflict(f"node {at[0]} is at {address} already; choose another address, or change those of {at[0]}")
        self._given[network, address] = fqdn
        return changes

    def _clear(self, network: str, address: str, fqdn: str) -> list[Change]:
        path = paths.network_address(network, address)
        given = self._given.get((network, address))
        found = self._found.addresses.get((network, address))
        if given is not None:
            raise _allocated(given, network, address)
        if path in self._freed:
            return []
        if found is None:
            if address in self._found.taken.get(network, ()):
                raise _allocated(self._holder(network, address), network, address)
            return []
        if found.record is None:
            raise Conflict(f"the record of {address} cannot be read; see: nodepool-ocb record show {path}")
        if not (self._over(network, found) or found.record.former == fqdn):
            if found.record.node is not None and self._exists(found.record.node):
                raise _allocated(found.record.node, network, address)
            raise Conflict(
                f"{address} of network {network} is in quarantine, since {found.record.former or found.record.node} had"
                f" it, for {self._until(network, found) - self._now:.0f} s more; choose another address, or wait"
            )
        return [Delete(path, found.version)]

    def lowest(self, network: str, chosen: AddressRange) -> str | None:
        """The lowest free address of a range; None if all are taken."""
        taken = self._taken(network)
        return next((str(each) for each in chosen.free(taken) if not self._at(each)), None)

    def sweep(self, network: str) -> list[Change]:
        """The deletion of some records that are over, so that they do not become many."""
        over = [
            Delete(paths.network_address(name, address), found.version)
            for (name, address), found in self._found.addresses.items()
            if name == network and (name, address) not in self._given and self._over(name, found)
        ]
        swept = [change for change in over if change.path not in self._freed][:SWEPT]
        self._freed |= {change.path for change in swept}
        return list(swept)

    def release(self, network: str, address: str, fqdn: str) -> list[Change]:
        """The quarantine of an address that this node has."""
        found = self._found.addresses.get((network, address))
        self._given.pop((network, address), None)
        if found is None or (found.record is not None and found.record.node != fqdn):
            return []
        return [Set(paths.network_address(network, address), NetworkAddress(former=fqdn), found.version)]

    def quarantined(self, network: str) -> int:
        """The number of its addresses that are not free yet, and have no node."""
        return sum(
            name == network and found.record is not None and found.record.node is None and not self._over(name, found)
            for (name, _), found in self._found.addresses.items()
        )

    # -- the records --

    def _taken(self, network: str) -> Collection[str]:
        free = {
            address
            for (name, address), found in self._found.addresses.items()
            if name == network and (self._over(name, found) or paths.network_address(name, address) in self._freed)
        }
        given = {address for name, address in self._given if name == network}
        return (self._found.taken.get(network, frozenset()) - free) | given

    def _over(self, network: str, found: FoundAddress) -> bool:
        """Whether the address of this record is free again."""
        if found.record is None or (found.record.node is not None and self._exists(found.record.node)):
            return False
        return self._until(network, found) <= self._now

    def _until(self, network: str, found: FoundAddress) -> float:
        stored = self.networks.get(network)
        return found.written + (stored.record.quarantine_seconds if stored is not None else 0.0)

    def _at(self, address: Address) -> bool:
        return bool(addressing.nodes_at(self.world, str(address)))

    def _exists(self, fqdn: str) -> bool:
        return fqdn in self.world.nodes or paths.node(fqdn) in self.world.unreadable

    def _holder(self, network: str, address: str) -> str:
        return next(
            (
                name
                for name, view in self.world.nodes.items()
                if view.record is not None and address in view.record.networks.get(network, ())
            ),
            "a node",
        )


def _allocated(other: str, network: str, address: str) -> Conflict:
    return Conflict(
        f"{address} of network {network} is allocated to {other} already; choose another, or first:"
        f" nodepool-ocb network release {network} {other} {address}"
    )
