"""The nodes of a plan: made, or changed where they are otherwise. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import liveness, nodes
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning.addressing.placing import Placing
from nodepool_ocb.site.desired_state import DesiredNode
from nodepool_ocb.site.steps import Planning

NOBODY: Final = frozenset[str]()  # with no jig, no role is bound to a new node of its own accord


def made_and_changed(plan: Planning) -> None:
    """Every node is as it is wanted; raises Conflict, Invalid or NotFound with the place."""
    for fqdn, each in sorted(plan.wanted.nodes.items()):
        view = plan.world.nodes.get(fqdn)
        with each.place.blamed():
            if each.fields.get("deployment", "system") not in plan.world.deployments:
                raise _no_deployment(each.fields["deployment"], plan.world.deployments)
            if view is None or view.record is None:
                _make(plan, each)
            else:
                _change(plan, each, view.record)


def _no_deployment(name: str, known: Iterable[str]) -> NotFound:
    """The file may be a site file, a table, or an inventory."""
    meant = did_you_mean(name, known)
    return NotFound(
        f"deployment {name} does not exist{f'{meant} Or create it' if meant else '; create it'}: nodepool-ocb deployment"
        f" create {name}, or write it under `deployments` of a site file"
    )


def _make(plan: Planning, each: DesiredNode) -> None:
    about = plan.about
    reached = () if each.fields.get("virtual") else (each.fqdn,)
    node = Node(**{"addresses": reached, "available": about.available, **each.fields})
    placed = Placing(plan.ledger, each.fqdn, node, about.now, new=True)
    nodes.refuse_taken(plan.world, each.fqdn)
    placed.create(None)
    jigs = NOBODY if plan.wanted.whole else about.jigs
    found = nodes.create(
        plan.world, each.fqdn, placed.node, admin_domain=about.admin_domain, now=about.now, jigs=jigs, by=about.by
    )
    plan.take([*placed.changes, *found.changes], "create", "node", each.fqdn, dict(each.fields))
    for name, _ in found.noderoles:
        plan.made.add(name)
        plan.step("create", "noderole", name)
    plan.notes += [*found.elsewhere, *placed.notes]


def _change(plan: Planning, each: DesiredNode, node: Node) -> None:
    fields: dict[str, Any] = dict(each.fields)
    if fields.pop("virtual", node.virtual) != node.virtual:
        raise Conflict(f"node {each.fqdn} is {'' if node.virtual else 'not '}virtual, and stays so; delete it first")
    other = {name: value for name, value in fields.items() if getattr(node, name) != value}
    if other:
        placed = Placing(
            plan.ledger, each.fqdn, replace(node, addresses=other.get("addresses", node.addresses)), plan.about.now
        )
        placed.change(other)
        plan.notes += placed.notes
        other = {name: value for name, value in other.items() if name not in ("macs", "networks")} | placed.fields
        changes = liveness.changed(plan.world, plan.world.nodes[each.fqdn], plan.about.now, plan.about.by, **other)
        plan.take([*placed.changes, *changes] if changes else [], "change", "node", each.fqdn, other)
