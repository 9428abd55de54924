"""The MACs and addresses of nodes that are created or changed: the reads, and then the rules of ``provisioning``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Change, Node, Set
from nodepool_ocb.operations.names import record_of
from nodepool_ocb.operations.operation import Situation, Steps
from nodepool_ocb.operations.reads.networks import EnsureNetworks, ReadHoldings
from nodepool_ocb.provisioning.addressing import placing
from nodepool_ocb.provisioning.addressing.found import FoundHoldings
from nodepool_ocb.provisioning.addressing.ledger import HoldingsLedger
from nodepool_ocb.provisioning.addressing.placing import Placing

READS: Final = (EnsureNetworks, ReadHoldings)
WRITES: Final = ("MAC address", "address")

#: The fields and hints of a node that concern what it holds.
KEYS: Final = frozenset({"macs", "hints.admin-mac", "hints.admin-v4addr"})


def ledger(
    world: World, situation: Situation, macs: Iterable[str] = (), nodes: Iterable[str] = ()
) -> Steps[HoldingsLedger]:
    """The holdings as they are; in a dry run also those of its rounds before."""
    yield from EnsureNetworks()
    found = yield from ReadHoldings(tuple(macs), tuple(nodes))
    made = HoldingsLedger(world, found, situation.now)
    if situation.call.dry_run:
        made.note(situation.written)
    return made


def created(world: World, situation: Situation, fqdn: str, node: Node, network: str | None) -> Steps[Placing]:
    """A new node with all that it gets; without a MAC, a hint and a network it is as it was."""
    if network is None and not placing.concerns(node):
        return Placing(HoldingsLedger(world, FoundHoldings(), situation.now), fqdn, node, situation.now, new=True)
    made = yield from ledger(world, situation, placing.all_macs(node.hints, node.macs))
    found = Placing(made, fqdn, node, situation.now, new=True)
    found.create(network)
    return found


def changed(world: World, situation: Situation, view: NodeView, fields: Mapping[str, Any]) -> Steps[Placing]:
    """A node with new hints or MACs; ``fields``: those that its caller changes."""
    before = record_of(view)
    after = replace(before, addresses=fields.get("addresses", before.addresses))
    wanted = placing.all_macs(fields.get("hints", before.hints), fields.get("macs", ()))
    made = yield from ledger(world, situation, wanted, (view.name,))
    found = Placing(made, view.name, after, situation.now)
    found.change(fields)
    return found


def moved(world: World, fqdn: str, name: str) -> Steps[list[Change]]:
    """The changes of all records that name a node which gets another name."""
    record = record_of(world.nodes[fqdn])
    changes: list[Change] = []
    if record.macs or record.networks:
        found = yield from ReadHoldings((), (fqdn,))
        changes += _moved(found, fqdn, name)
    for network, stored in sorted(world.of(Network).items()):
        if fqdn in stored.record.slices:
            slices = {name if each == fqdn else each: index for each, index in stored.record.slices.items()}
            changes.append(Set(paths.network(network), replace(stored.record, slices=slices), stored.version))
    return changes


def _moved(found: FoundHoldings, fqdn: str, name: str) -> list[Change]:
    """Raises Conflict for a record that cannot be read."""
    changes: list[Change] = []
    for mac, owner in found.owners.items():
        if owner.record is None:
            raise Conflict(f"{paths.mac(mac)} cannot be read; see: nodepool-ocb record show {paths.mac(mac)}")
        if owner.record.node == fqdn:
            changes.append(Set(paths.mac(mac), replace(owner.record, node=name), owner.version))
    for at, address in found.addresses.items():
        if address.record is not None and address.record.node == fqdn:
            changes.append(Set(paths.network_address(*at), replace(address.record, node=name), address.version))
    return changes


def refuse_many(chosen: int, keys: Iterable[str]) -> None:
    """Raises Invalid if several nodes would get one MAC or one address."""
    if chosen > 1 and (shared := sorted(KEYS.intersection(keys))):
        raise Invalid(f"{', '.join(shared)}: one machine has it, and these are {chosen} nodes; name one node")
