"""Making and taking away nodes (seed 000, "What happens in OCB to create a node")."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from nodepool_ocb import binding, unreadable
from nodepool_ocb.aliveness import with_hook
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import Change, Create, Fence, Node, Set, State
from nodepool_ocb.store import paths
from nodepool_ocb.world import NodeView, World, node_of

LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def create(
    world: World,
    fqdn: str,
    node: Node,
    *,
    admin_domain: str | None,
    now: float,
    jigs: Collection[str] | None = None,
    by: str | None = None,
) -> binding.Plan:
    """The transaction that makes a node, with the roles that every new one gets: *bootstrap* or *discovery*.

    Raises Invalid for a name that is no FQDN in the admin domain, Conflict for one that is taken, NotFound for an unknown
    deployment. Discovery roles whose jig nobody has are left out (seed 000, "Role Flags").
    """
    check_name(fqdn, admin_domain)
    unreadable.refuse_new_node(world, fqdn)
    existing = world.nodes.get(fqdn)
    if existing is not None and existing.record is not None:
        raise Conflict(f"node {fqdn} exists already; nodepool-ocb node show {fqdn}")
    if node.deployment not in world.deployments:
        raise NotFound(f"deployment {node.deployment} does not exist; nodepool-ocb deployment create {node.deployment}")
    made = replace(node, since=now, hooks=with_hook(world, (), "on_node_create"), alive=node.alive or node.virtual)
    changes: list[Change] = [
        Create(paths.node(fqdn), made),
        Create(paths.fence(fqdn), Fence()),
        Create(paths.noderoles(fqdn)),
    ]
    roles = [] if node.virtual else _roles_of_new(world, node.admin, jigs)
    bound = binding.plan_all(world, roles, NodeView(fqdn, world, made), now=now, by=by, jigs=jigs)
    return binding.Plan(bound.noderoles, (*changes, *bound.changes), bound.explanations)


def _roles_of_new(world: World, admin: bool, jigs: Collection[str] | None) -> list[str]:
    flag = "bootstrap" if admin else "discovery"
    return sorted(
        name
        for name, stored in world.roles.items()
        if flag in stored.record.flags and (jigs is None or stored.record.jig in jigs)
    )


def check_name(fqdn: str, admin_domain: str | None) -> None:
    """Raises Invalid where the name is no FQDN, or lies outside the cluster's administrative domain.

    >>> check_name("n1.example.com", "example.com")
    """
    labels = fqdn.split(".")
    if len(fqdn) > 253 or len(labels) < 2 or not all(LABEL.fullmatch(label) for label in labels):
        raise Invalid(f"{fqdn!r} is not a fully qualified domain name in small letters; write one like n1.example.com")
    if admin_domain and not fqdn.endswith(f".{admin_domain}"):
        raise Invalid(f"{fqdn} is not in the admin domain; name it {labels[0]}.{admin_domain}, or change admin_domain")


def delete(world: World, fqdn: str) -> list[Change]:
    """Ask for a node's deletion: hooks of on_node_delete run first, then an annealer takes it away.

    Empty where no role has such a hook: then the caller takes it away (store.removal). Raises NotFound, or Conflict where
    it may not go.
    """
    view = node_of(world, fqdn)
    deletable(view)
    unreadable.refuse_deletion(world, view)
    assert view.record is not None, "node_of gives only nodes that exist"
    hooks = with_hook(world, view.record.hooks, "on_node_delete")
    if "on_node_delete" not in hooks:
        return []
    return [Set(paths.node(fqdn), replace(view.record, deleting=True, hooks=hooks), view.version)]


def deletable(view: NodeView) -> None:
    """Raises Conflict while something works on the node, or noderoles of other nodes (may) depend on its own."""
    unreadable.refuse_removal(view.world, [view])
    if view.claim is not None:
        raise Conflict(f"{view.claim.noderole} is at work on {view.name}; wait until it ends")
    for vertex in view.noderoles.values():
        for child in vertex.children:
            if child.node is not view and child.record.state is not State.PROPOSED:
                raise Conflict(f"{child.name} depends on {vertex.name}; unbind it first")
