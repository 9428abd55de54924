"""Creation, hold, release and deletion of nodes (seed 000, the section on the creation of a node in OCB)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from msgspec.structs import replace

from nodepool_ocb.engine import (
    addressing,
    binding,
    deployments,
    holdings,
    installing,
    liveness,
    maintenance,
    structure,
    unreadable,
)
from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.hooks.node import with_hook
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import NodeView, Vertex, World, node_of
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.ranges import is_node
from nodepool_ocb.model.records import Change, Check, Create, Delete, Fence, Node, Set, State


def create(
    world: World,
    fqdn: str,
    node: Node,
    *,
    admin_domain: str | None,
    now: float,
    jigs: Collection[str] | None = None,
    by: str | None = None,
    roles: Collection[str] = (),
) -> binding.BindPlan:
    """The transaction that creates a node, with the roles that every new node gets: *bootstrap* or *discovery*.

    ``roles``: further roles to bind.

    Raises Invalid for a name that is no FQDN in the admin domain, and for an address that is none. Raises Conflict for a name
    that is taken, NotFound for an unknown deployment. Discovery roles with a jig that no annealer has are left out (seed 000,
    "Role Flags").
    """
    check_name(fqdn, admin_domain)
    addressing.check(world, fqdn, node.addresses)
    unreadable.refuse_new_node(world, fqdn)
    refuse_taken(world, fqdn)
    if node.deployment not in world.deployments:
        raise NotFound(
            f"deployment {node.deployment} does not exist; first: nodepool-ocb deployment create {node.deployment}"
        )
    made = replace(
        node,
        since=now,
        hooks=with_hook(world, (), "on_node_create"),
        alive=node.alive or node.virtual,
        epoch_base=structure.stored(world).record.epoch,
    )
    changes: list[Change] = [
        Create(paths.node(fqdn), made),
        Create(paths.fence(fqdn), Fence()),
        Create(paths.noderoles(fqdn)),
        *holdings.created(fqdn, made, now),
    ]
    wanted = [] if node.virtual else _roles_of_new(world, node.admin, jigs)
    wanted += [role for role in roles if role not in wanted]
    bound = binding.plan_all(world, wanted, NodeView(fqdn, world, made), now=now, by=by, jigs=jigs)
    whole = structure.raised(world, (*changes, *bound.changes))
    return replace(bound, changes=tuple(whole))


def refuse_taken(world: World, fqdn: str) -> None:
    """Raises Conflict if the node exists."""
    existing = world.nodes.get(fqdn)
    if existing is not None and existing.record is not None:
        raise Conflict(f"node {fqdn} exists already; see: nodepool-ocb node show {fqdn}")


def _roles_of_new(world: World, admin: bool, jigs: Collection[str] | None) -> list[str]:
    flag = "bootstrap" if admin else "discovery"
    return sorted(
        name
        for name, stored in world.roles.items()
        if flag in stored.record.flags and (jigs is None or stored.record.jig in jigs)
    )


def check_name(fqdn: str, admin_domain: str | None) -> None:
    """Raises Invalid if the name is no FQDN, or lies outside the cluster's administrative domain.

    >>> check_name("n1.example.com", "example.com")
    """
    labels = fqdn.split(".")
    if len(labels) < 2 or not is_node(fqdn):
        raise Invalid(f"{fqdn!r} is not a fully qualified domain name in small letters; write one like n1.example.com")
    if admin_domain and not fqdn.endswith(f".{admin_domain}"):
        raise Invalid(f"{fqdn} is not in the admin domain; name it {labels[0]}.{admin_domain}, or change admin_domain")


def hold(
    world: World, fqdn: str, by: str, reason: str, now: float, until: float | None, *, end: bool = False
) -> Iterator[list[Change]]:
    """Nothing new begins on the node: one transaction, none if nothing changes. ``end``: its run is cancelled, too.

    Raises NotFound; Conflict if a different person holds it; Invalid for an end that has passed.
    """
    view = node_of(world, fqdn)
    made = maintenance.put(
        _record(view).hold, f"node {fqdn} is held", maintenance.releasing(fqdn), by, reason, now, until
    )
    changes = liveness.changed(world, view, now, by, hold=made)
    running = [view.busy] if end and view.busy is not None and view.busy.record.cancel_reason is None else []
    moved = apply_to(world, running, Event.CANCEL, now, by, f"{reason} ({by})", changes)
    yield from moved if running else filter(None, [changes])


def release(world: World, fqdn: str, now: float, by: str) -> list[Change]:
    """Delete the hold of a node from its record; empty if there is none. Raises NotFound."""
    return liveness.changed(world, node_of(world, fqdn), now, by, hold=None)


def delete(world: World, fqdn: str, besides: Collection[str] = ()) -> list[Change]:
    """Request a node's deletion: hooks of on_node_delete run first, then an annealer deletes it.

    Empty if no role has such a hook, or if they have run: then the caller deletes it (``taking_away``). Raises NotFound, or
    Conflict if it may not be deleted; ``besides``: the nodes that are deleted before it.
    """
    view = node_of(world, fqdn)
    unreadable.refuse_deletion(world, view)
    record = _record(view)
    going(view, besides)
    taken_over = record.alive or record.virtual or installing.under_way(view) is not None  # not on other dead machines
    busy = view.busy if taken_over else None
    if busy is not None and not record.deleting:
        raise Conflict(f"{busy.name} is in TRANSITION; wait until it ends: nodepool-ocb noderole wait {busy.name}")
    hooks = record.hooks if record.deleting else with_hook(world, record.hooks, "on_node_delete")
    return marked(view, hooks) if "on_node_delete" in hooks else []


def taking_away(world: World, fqdn: str, deletions: Sequence[Change]) -> Iterator[list[Change]]:
    """The transactions that delete a node with all that belongs to it: ``deletions``, leaves first, the node last.

    The last transaction frees its MACs and addresses, too.

    If they are several, the node is marked as ``deleting`` first. Then it is not claimed or bound to any more, and an annealer
    continues if the caller stops. Write each before taking the next. Raises Stale if a znode must go that is not in
    ``deletions``.
    """
    refuse_part(world, fqdn, deletions)
    view = node_of(world, fqdn)
    if not limits.fits(structure.raised(world, deletions)) and not _record(view).deleting:
        yield from structure.written(world, marked(view))
        world.put_node(fqdn, replace(_record(view), deleting=True), view.version + 1)
        deletions = [*deletions[:-1], Delete(paths.node(fqdn), view.version)]
    held = [change for change in deletions if change.path.startswith(holdings.FOLDERS)]
    leaves = ([change] for change in deletions[:-1] if change not in held)
    yield from structure.in_parts(world, [*leaves, [*held, deletions[-1]]])


def refuse_part(world: World, fqdn: str, deletions: Sequence[Change]) -> None:
    """Raises Stale if the node, or a noderole that goes with it, is not among the deletions; the errors of ``going``."""
    there = {change.path for change in deletions}
    vertices = going(node_of(world, fqdn))
    missing = [vertex.name for vertex in vertices if paths.noderole(vertex.role, vertex.node.name) not in there]
    if missing or paths.node(fqdn) not in there:
        raise Stale(f"{', '.join(missing) or fqdn} changed meanwhile: read it again", paths.node(fqdn))


def marked(view: NodeView, hooks: tuple[str, ...] | None = None) -> list[Change]:
    """The mark of a deletion; refused if the node was claimed since. ``hooks``: those that are to run; None: as before."""
    record = _record(view)
    after = replace(record, deleting=True, hooks=record.hooks if hooks is None else hooks)
    return structure.raised(
        view.world, [Check(paths.fence(view.name), view.fence), Set(paths.node(view.name), after, view.version)]
    )


def in_order(views: Collection[NodeView]) -> list[NodeView]:
    """Nodes to delete: each node comes before those that its noderoles depend on. Raises Conflict for a circle."""
    by_name = {view.name: view for view in views}
    graph = {
        name: sorted(
            child.node.name
            for vertex in view.noderoles.values()
            for child in vertex.children
            if child.node is not view and child.node.name in by_name
        )
        for name, view in sorted(by_name.items())
    }
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as circle:
        raise Conflict(
            f"noderoles of these nodes depend on each other: {', '.join(circle.args[1])}; unbind some first"
        ) from None


def going(view: NodeView, besides: Collection[str] = ()) -> list[Vertex]:
    """The noderoles that go with a node: its own, and the PROPOSED ones of other nodes that depend on them; parents first.

    Those on the nodes ``besides`` are left out. Raises Conflict while an annealer works on the node, or while a run of tasks
    that is not over has noderoles there. Raises Conflict also if a dependent noderole elsewhere was committed, or may be
    committed and cannot be read.
    """
    unreadable.refuse_removal(view.world, [view])
    deployments.refuse_driven(view.world, view.noderoles.values())
    if view.claim is not None:
        raise Conflict(
            f"{view.claim.noderole} is at work on {view.name}; wait until it ends:"
            f" nodepool-ocb noderole wait {view.claim.noderole}"
        )
    above = {vertex: vertex for vertex in view.noderoles.values()}  # each to that of the node which it depends on
    found = list(above)
    for vertex in found:  # grows while it is walked
        for child in vertex.children:
            if child.node.name in besides:
                continue
            if child.node is not view and child.record.state is not State.PROPOSED:
                raise Conflict(
                    f"{child.name} depends on {above[vertex].name}; first: nodepool-ocb noderole unbind {child.name}"
                )
            if child not in above:
                above[child] = above[vertex]
                found.append(child)
    return sorted(found, key=lambda vertex: (view.world.depth(vertex), vertex.name))


def _record(view: NodeView) -> Node:
    assert view.record is not None, "node_of gives only nodes that exist"
    return view.record
