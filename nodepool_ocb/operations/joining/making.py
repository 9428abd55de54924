"""The node of a machine: a new one by a rule, or a planned one. Each is one transaction with the registration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import binding, commands, enrolling, liveness, nodes, structure
from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.advancing import advance, copied
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.joining import AdoptionRule, Inventory, MachineRegistration
from nodepool_ocb.model.records import Change, Create, Node, NodeRole, Set
from nodepool_ocb.operations.names import record_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.nodes.domain import admin_domain
from nodepool_ocb.operations.operation import Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.joining import adoption

READS: Final = (ReadWorld, *placement.READS)
WRITES: Final = ("registration", "node", "noderole", "deployment role", "inventory", *placement.WRITES)


def made(
    world: World, situation: Situation, mac: str, stored: Stored[MachineRegistration], named: tuple[str, AdoptionRule]
) -> Steps[Sequence[Change]]:
    """The transaction that makes a node by a rule. Raises Conflict, Invalid or NotFound with the reason why not."""
    fqdn, rule = named
    machine = stored.record
    nodes.refuse_taken(world, fqdn)
    node = Node(
        deployment=rule.deployment,
        user=rule.user,
        host_keys=machine.host_keys,
        tags=rule.tags,
        labels=rule.labels,
        rack=adoption.rack_of(rule, machine.facts),
        macs=machine.macs,
        allow_install=rule.allow_install,
        available=situation.settings.nodes.available,
    )
    placed = yield from placement.created(world, situation, fqdn, node, rule.network)
    node = replace(placed.node, addresses=_addresses(placed.node.addresses, machine.address))
    changes = [*placed.changes, *_bound(world, situation, fqdn, node, rule)]
    changes += [_adopted(mac, stored, fqdn), _inventory(world, fqdn, machine, situation)]
    whole = structure.raised(world, enrolling.folded(changes))
    if not limits.fits(whole):
        raise Conflict(f"{fqdn} would have too many noderoles for one transaction; give the rule fewer roles")
    return whole


def tied(
    world: World, situation: Situation, mac: str, stored: Stored[MachineRegistration], view: NodeView
) -> Steps[Sequence[Change]]:
    """The transaction that ties a machine to a node that exists: its MACs, host keys, address and facts."""
    machine = stored.record
    before = record_of(view)
    fields: dict[str, Any] = (
        {"macs": tuple(dict.fromkeys((*before.macs, *machine.macs)))} if machine.macs != before.macs else {}
    )
    placed = yield from placement.changed(world, situation, view, fields)
    kept = placed.fields.get("addresses", before.addresses)
    fields = {**placed.fields, "addresses": _addresses(kept, machine.address)}
    if machine.host_keys:
        fields["host_keys"] = machine.host_keys
    node = liveness.changed(world, view, situation.now, situation.by, **fields)
    own = [_adopted(mac, stored, view.name), _inventory(world, view.name, machine, situation)]
    return [*placed.changes, *node, *own]


def _bound(world: World, situation: Situation, fqdn: str, node: Node, rule: AdoptionRule) -> list[Change]:
    """The node with its noderoles; those of ``roles`` depend on those of ``commission``."""
    scratch = copied(world)
    jigs = active_jigs(world)
    plan = nodes.create(
        scratch,
        fqdn,
        node,
        admin_domain=admin_domain(world, situation.settings),
        now=situation.now,
        jigs=jigs,
        by=situation.by,
        roles=rule.commission or rule.roles,
    )
    changes = _without_structure(plan.changes)
    advance(scratch, changes)
    if rule.commission:
        parents = frozenset(paths.noderole_name(role, fqdn) for role in rule.commission)
        later = binding.plan_all(
            scratch, rule.roles, scratch.nodes[fqdn], now=situation.now, by=situation.by, jigs=jigs
        )
        more = [_below(change, fqdn, parents) for change in _without_structure(later.changes)]
        advance(scratch, more)
        changes += more
    if rule.commit:
        bound = list(scratch.nodes[fqdn].noderoles.values())
        for part in commands.apply_to(scratch, bound, Event.COMMIT, situation.now, situation.by):
            advance(scratch, part)
            changes += part
    return changes


def _below(change: Change, fqdn: str, parents: frozenset[str]) -> Change:
    """The change; a new noderole of the node also depends on ``parents``."""
    if isinstance(change, Create) and isinstance(change.data, NodeRole) and change.path.split("/")[3] == fqdn:
        record = replace(change.data, parents=tuple(sorted(parents.union(change.data.parents))))
        return replace(change, data=record)
    return change


def _without_structure(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if change.path != paths.STRUCTURE]


def _adopted(mac: str, stored: Stored[MachineRegistration], fqdn: str) -> Change:
    """Without a time of now, so that a write is the same as its dry run."""
    return Set(paths.registration(mac), replace(stored.record, node=fqdn, reason=None), stored.version)


def _inventory(world: World, fqdn: str, machine: MachineRegistration, situation: Situation) -> Change:
    return stored_inventory(world, fqdn, Inventory(facts=machine.facts, at=machine.seen, by=situation.by))


def stored_inventory(world: World, fqdn: str, record: Inventory) -> Change:
    """The change that keeps an inventory."""
    before = world.of(Inventory).get(fqdn)
    place = paths.inventory(fqdn)
    return Create(place, record) if before is None else Set(place, record, before.version)


def _addresses(known: tuple[str, ...], address: str) -> tuple[str, ...]:
    """With the address that the machine registered from at the end."""
    own = f"[{address}]" if ":" in address else address
    return tuple(dict.fromkeys((*known, *([own] if own else []))))
