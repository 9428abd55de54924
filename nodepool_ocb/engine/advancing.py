"""A world that is advanced by planned changes, and a copy of a world for that. Pure.

Versions are those that the znodes will have without other writers. If there are other writers, the transaction is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import kinds
from nodepool_ocb.model.records import (
    Append,
    Change,
    Check,
    Claim,
    Create,
    Delete,
    Fence,
    Gate,
    Node,
    NodeRole,
    Raise,
    Record,
    Set,
)


def copied(world: World) -> World:
    """The same, to be advanced without the other."""
    made = World()
    made.spoiled, made.unreadable = dict(world.spoiled), dict(world.unreadable)
    made.put_all(world)
    for fqdn, view in world.nodes.items():
        if view.record is not None:
            made.put_node(fqdn, view.record, view.version, view.mzxid)
        made.put_fence(fqdn, view.fence, view.newest)
        made.put_claim(fqdn, view.claim, view.claim_owner, view.claim_version)
    for vertex in world.vertices():
        made.put_noderole(vertex.node.name, vertex.role, vertex.record, vertex.version, vertex.mzxid)
    for cluster in world.clusters.values():
        made.put_gate(cluster.deployment, cluster.role, cluster.gate, cluster.mzxid)
    return made


def advance(world: World, changes: Iterable[Change]) -> None:
    """Bring the world to where these changes take it; claims and gates that go are left as they are."""
    for change in changes:
        found = None if isinstance(change, Check | Append) else kinds.find(change.path)
        if found is None or found.kind.record is None or found.kind.wakes is None:
            continue
        if isinstance(change, Delete):
            _drop(world, found.kind.record, found.names)
        elif isinstance(change, Create | Set | Raise) and isinstance(change.data, Record):
            _put(world, found.names, change.data, change)


def _drop(world: World, kind: type[Record], names: tuple[str, ...]) -> None:
    if kind is Node:
        world.drop_node(*names)
    elif kind is NodeRole:
        world.drop_noderole(*names)
    elif kind not in (Claim, Fence, Gate):
        world.drop(kind, *names)


def _put(world: World, names: tuple[str, ...], record: Record, change: Create | Set | Raise) -> None:
    version = change.version + 1 if isinstance(change, Set) else 0
    match record:
        case Node():
            world.put_node(names[0], record, version)
        case NodeRole():
            world.put_noderole(names[0], names[1], record, version)
        case Fence():
            world.put_fence(names[0], version)
        case Gate():
            deployment, role = names
            before = world.cluster_view(role, deployment).gate
            world.put_gate(deployment, role, before + 1 if isinstance(change, Raise) else version)
        case Claim():
            pass
        case _:
            world.put(Stored(record, version), *names)
