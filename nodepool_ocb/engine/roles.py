"""Roles that are taken away: nothing may be bound to one, be configured for one, or require one. Pure."""

from __future__ import annotations

from collections.abc import Collection

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import structure, unreadable
from nodepool_ocb.engine.binding import attaching
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete, Role, Set


def deletion(world: World, names: Collection[str]) -> list[Change]:
    """The transaction that deletes these roles together.

    Raises NotFound. Raises Conflict, with the names and the next command, while one is bound, is in a deployment, or is
    required by a role that stays.
    """
    unreadable.refuse_end_of_roles(world, names)
    for name in names:
        if name not in world.roles:
            raise NotFound(f"role {name} does not exist; see: nodepool-ocb role list")
    bound = sorted(vertex.name for vertex in world.vertices() if vertex.role in names)
    if bound:
        raise Conflict(f"noderoles are bound: {some(bound)}; first: nodepool-ocb noderole unbind {bound[0]}")
    there = sorted(key for key in world.deployment_roles if key[1] in names)
    if there:
        inside = some([f"{role} in {deployment}" for deployment, role in there])
        raise Conflict(f"in deployments: {inside}; first: nodepool-ocb deployment unset {' '.join(there[0])}")
    staying = _staying(world, names)
    if needing := [(name, need) for name, role in staying.items() for need in role.requires if need in names]:
        required = some([f"{need} by {name}" for name, need in needing])
        raise Conflict(f"required: {required}; first: nodepool-ocb role delete {needing[0][0]}")
    changes: list[Change] = [Delete(paths.role(name), world.roles[name].version) for name in sorted(names)]
    for name, role in staying.items():
        if role != world.roles[name].record:
            changes.append(Set(paths.role(name), role, world.roles[name].version))
    return structure.raised(world, changes)


def _staying(world: World, names: Collection[str]) -> dict[str, Role]:
    """The roles that stay, without the requirements that the others stated for them."""
    staying = {name: stored.record for name, stored in sorted(world.roles.items()) if name not in names}
    return attaching.complete({name: attaching.as_written(role) for name, role in staying.items()})


def of_barclamp(world: World, barclamp: str) -> list[str]:
    """The roles that a barclamp defines; raises NotFound if there is none."""
    names = sorted(name for name, stored in world.roles.items() if stored.record.barclamp == barclamp)
    if not names:
        raise NotFound(f"barclamp {barclamp} does not exist; see: nodepool-ocb role list")
    return names
