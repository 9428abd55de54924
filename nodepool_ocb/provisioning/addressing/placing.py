"""The MACs and addresses of one node: by the hints of seed 000, by name, or the lowest that is free. Pure.

A hint is obeyed, or refused with a reason. Without any network, ``admin-v4addr`` stays a hint, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import holdings
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import MacOwner
from nodepool_ocb.model.records import Change, Create, Json, Node
from nodepool_ocb.provisioning.addressing import choosing, macs
from nodepool_ocb.provisioning.addressing.ledger import HoldingsLedger

MOST: Final = 64  # addresses of one node in one network
MAC_HINT: Final = "admin-mac"
ADDRESS_HINT: Final = "admin-v4addr"


def concerns(node: Node) -> bool:
    """Whether a new node has a MAC, or a hint that is to be obeyed."""
    return bool(node.macs) or not node.hints.keys().isdisjoint((MAC_HINT, ADDRESS_HINT))


class Placing:
    """A node that gets and loses MACs and addresses; ``node`` is its record so far.

    ``changes`` are those beside the record. The records of a ``new`` node's holdings come with its creation.
    """

    def __init__(self, ledger: HoldingsLedger, fqdn: str, node: Node, now: float, *, new: bool = False) -> None:
        self.node = node
        self.changes: list[Change] = []
        self.notes: list[str] = []
        self._before = node
        self._ledger = ledger
        self._fqdn = fqdn
        self._now = now
        self._new = new

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the record that changed."""
        names = ("macs", "networks", "addresses", "hints")
        return {
            name: getattr(self.node, name) for name in names if getattr(self.node, name) != getattr(self._before, name)
        }

    @property
    def gained(self) -> list[str]:
        """The addresses that it got, each with its network."""
        before = self._before.networks
        return [
            f"{address} of network {name}"
            for name, all_ in self.node.networks.items()
            for address in all_
            if address not in before.get(name, ())
        ]

    def create(self, network: str | None) -> None:
        """All that a new node gets. Raises Conflict, Invalid or NotFound."""
        own, wanted = all_macs(self.node.hints, self.node.macs), self.node.networks
        self.node = replace(self.node, macs=(), networks={})
        self.own(own)
        if wanted:
            self.have(wanted)
            return
        hint = _text(self.node.hints, ADDRESS_HINT)
        if network is not None:
            choosing.known(self._ledger.networks, network)
        if hint is not None:
            self.obey(hint, network)
        elif network is not None or (own and len(self._ledger.networks) == 1):
            self.lowest(network or next(iter(self._ledger.networks)), named=network is not None)
        elif own and self._ledger.networks:
            self.notes.append(
                f"{self._fqdn} has no address, for there are several networks; see: nodepool-ocb network allocate NETWORK"
                f" {self._fqdn}"
            )

    def change(self, fields: Mapping[str, Any]) -> None:
        """The effect of new hints and of a new list of MACs. Raises Conflict or Invalid."""
        before = self.node
        hints = fields.get("hints", before.hints)
        hinted = _text(hints, MAC_HINT) != _text(before.hints, MAC_HINT)
        if "macs" in fields or hinted:
            former = _text(before.hints, MAC_HINT) if hinted else None
            kept = fields.get("macs", tuple(each for each in before.macs if each != (former or "").lower()))
            self.own(all_macs(hints, kept))
        if "networks" in fields:
            self.have(fields["networks"])
            return
        hint = _text(hints, ADDRESS_HINT)
        if hint is not None and hint != _text(before.hints, ADDRESS_HINT):
            former = _text(before.hints, ADDRESS_HINT)
            self.obey(hint, None, instead=None if former is None else former.partition("/")[0])

    def own(self, wanted: tuple[str, ...]) -> None:
        """Have these MACs, and no other ones. Raises Conflict."""
        for mac in self.node.macs:
            if mac not in wanted:
                self.changes += self._ledger.disown(mac, self._fqdn)
        for mac in wanted:
            if mac not in self.node.macs:
                self.changes += self._ledger.own(mac, self._fqdn)
                self.changes += [] if self._new else [Create(paths.mac(mac), MacOwner(node=self._fqdn))]
        self.node = replace(self.node, macs=wanted)

    def have(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        """Have these addresses, and no other ones. Raises Conflict, Invalid or NotFound."""
        named = {name: tuple(str(choosing.address(each)) for each in all_) for name, all_ in wanted.items() if all_}
        for name, all_ in self.node.networks.items():
            for each in all_:
                if each not in named.get(name, ()):
                    self.release(name, each)
        for name, all_ in named.items():
            for each in all_:
                if each not in self.node.networks.get(name, ()):
                    self.take(name, each)
        self.node = replace(self.node, networks=named)

    def obey(self, hint: str, network: str | None, instead: str | None = None) -> None:
        """The address of the hint; ``instead``: the address of the hint before, which goes. Raises Conflict."""
        if not self._ledger.networks:
            self.notes.append(
                f"hint {ADDRESS_HINT} of {self._fqdn} stays a hint: there is no network; see: nodepool-ocb network create"
            )
            return
        name, address = choosing.hinted(self._ledger.networks, hint, admin=self.node.admin)
        if network not in (None, name):
            raise Conflict(
                f"hint {ADDRESS_HINT}={hint} is in network {name}, and not in {network}; leave one of both out"
            )
        if address in self.node.networks.get(name, ()):
            return
        if instead is not None and instead in self.node.networks.get(name, ()):
            self.release(name, instead)
        self.take(name, address)

    def lowest(self, network: str, *, named: bool) -> None:
        """The lowest free address of each family. Raises Conflict if there is none, and the network was ``named``."""
        record = choosing.known(self._ledger.networks, network)
        spans = choosing.automatic(record, admin=self.node.admin)
        if not spans and named:
            raise Conflict(
                f"network {network} has no range for fixed addresses; first: nodepool-ocb network set {network}"
                " ranges.host=FIRST-LAST"
            )
        for each in spans:
            address = self._ledger.lowest(network, each)
            if address is None:
                waiting = self._ledger.quarantined(network)
                raise Conflict(
                    f"network {network} has no free address in {each} ({waiting} in quarantine); widen the range:"
                    f" nodepool-ocb network set {network}, or release addresses: nodepool-ocb network addresses {network}"
                )
            self._taken(network, address)
        self.changes += self._ledger.sweep(network)

    def take(self, network: str, address: str) -> None:
        """This address of the network. Raises Conflict with the reason why not."""
        wanted = choosing.address(address)
        choosing.check(network, choosing.known(self._ledger.networks, network), wanted, admin=self.node.admin)
        self._taken(network, str(wanted))

    def release(self, network: str, address: str | None) -> None:
        """Give an address back, or all of the network; they are in quarantine then. Raises NotFound."""
        own = self.node.networks.get(network, ())
        going = own if address is None else tuple(each for each in own if each == str(choosing.address(address)))
        if not going:
            raise NotFound(
                f"{self._fqdn} has no address {f'{address} ' if address else ''}in network {network};"
                f" see: nodepool-ocb node show {self._fqdn}"
            )
        for each in going:
            self.changes += self._ledger.release(network, each, self._fqdn)
        left = tuple(each for each in own if each not in going)
        networks = {name: left if name == network else all_ for name, all_ in self.node.networks.items()}
        addresses = tuple(each for each in self.node.addresses if each not in going)
        self.node = replace(
            self.node, networks={name: each for name, each in networks.items() if each}, addresses=addresses
        )

    def _taken(self, network: str, address: str) -> None:
        own = self.node.networks.get(network, ())
        if len(own) >= MOST:
            raise Conflict(f"{self._fqdn} has {len(own)} addresses in network {network}, the most; release one first")
        self.changes += self._ledger.take(network, address, self._fqdn)
        first = self.node.addresses in ((), (self._fqdn,))
        self.node = replace(
            self.node,
            networks={**self.node.networks, network: (*own, address)},
            addresses=(address, *self.node.addresses) if first else self.node.addresses,
        )
        if not self._new:
            record = holdings.allocated(self._fqdn, self.node, self._now)
            self.changes.append(Create(paths.network_address(network, address), record))


def all_macs(hints: Mapping[str, Json], given: tuple[str, ...]) -> tuple[str, ...]:
    """The MACs of a node: that of the hint first. Raises Invalid."""
    hint = _text(hints, MAC_HINT)
    return macs.checked([*([] if hint is None else [hint]), *given])


def _text(hints: Mapping[str, Json], name: str) -> str | None:
    found = hints.get(name)
    return found if isinstance(found, str) else None
