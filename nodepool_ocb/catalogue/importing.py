"""Import of roles: the changes of the catalogue, in an order of which every part is sound. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Role, Set


def changes(world: World, given: Mapping[str, Role]) -> list[Change]:
    """The roles that are new or different, each after all that it requires: so no part of the changes leaves a circle."""
    found: list[Change] = []
    for name in _required_first({**{name: stored.record for name, stored in world.roles.items()}, **given}):
        role = given.get(name)
        stored = world.roles.get(name)
        if role is None:
            continue
        if stored is None:
            found.append(Create(paths.role(name), role))
        elif stored.record != role:
            found.append(Set(paths.role(name), role, stored.version))
    return found


def _required_first(catalogue: Mapping[str, Role]) -> list[str]:
    graph = {name: [need for need in role.requires if need in catalogue] for name, role in catalogue.items()}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError:  # of roles that no import has written
        return sorted(graph)
