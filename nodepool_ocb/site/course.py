"""A copy of a world that is advanced by the planned changes. Pure.

Versions are those that the znodes will have without other writers. If there are other writers, the transaction is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.records import (
    Append,
    Change,
    Check,
    Create,
    Delete,
    Deployment,
    DeploymentRole,
    Gate,
    Node,
    NodeRole,
    Raise,
    Role,
    Set,
    Structure,
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
    """Bring the world to where these changes take it."""
    for change in changes:
        if isinstance(change, Delete):
            _gone(world, change.path.split("/")[2:])
        elif not isinstance(change, Check | Append):
            _put(world, change)


def _gone(world: World, names: list[str]) -> None:
    match names:
        case ["roles", name]:
            world.drop(Role, name)
        case ["deployments", name]:
            world.drop(Deployment, name)
        case ["deployments", name, "roles", role]:
            world.drop(DeploymentRole, name, role)
        case ["nodes", fqdn]:
            world.drop_node(fqdn)
        case ["nodes", fqdn, "noderoles", role]:
            world.drop_noderole(fqdn, role)


def _put(world: World, change: Create | Set | Raise) -> None:
    version = change.version + 1 if isinstance(change, Set) else 0
    names = change.path.split("/")[2:]
    match names, change.data:
        case _, Structure() as record:
            world.put(Stored(record, version))
        case [_, name], Role() as record:
            world.put(Stored(record, version), name)
        case [_, name], Deployment() as record:
            world.put(Stored(record, version), name)
        case [_, name, _, role], DeploymentRole() as record:
            world.put(Stored(record, version), name, role)
        case [_, name, _, role], Gate():
            before = world.cluster_view(role, name).gate
            world.put_gate(name, role, before + 1 if isinstance(change, Raise) else 0)
        case [_, fqdn], Node() as record:
            world.put_node(fqdn, record, version)
        case [_, fqdn, "fence"], _:
            world.put_fence(fqdn, version)
        case [_, fqdn, _, role], NodeRole() as record:
            world.put_noderole(fqdn, role, record, version)
