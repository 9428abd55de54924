"""Attributes of roles: their defaults and the places that they declare, with those of the roles that they provide.

A role has the attributes of the roles that it provides as if it declared them (seed 001).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodepool_ocb.engine.attributes import merge
from nodepool_ocb.model.records import Json, Role


def provided(catalogue: Mapping[str, Role], name: str) -> list[Role]:
    """The role, then those that it provides, the nearest first; KeyError if it is not known."""
    catalogue[name]
    names = [name]
    for each in names:  # grows while it is walked
        names += [other for other in catalogue[each].provides if other in catalogue and other not in names]
    return [catalogue[each] for each in names]


def template(catalogue: Mapping[str, Role], name: str) -> dict[str, Json]:
    """The defaults of all attributes that a role has, its own before those of the roles that it provides."""
    merged: dict[str, Json] = {}
    for each in reversed(provided(catalogue, name)):
        merged = merge(merged, each.template)
    return merged


def resting_on(catalogue: Mapping[str, Role], changed: Collection[str]) -> set[str]:
    """The roles with defaults or places that a change of these roles may change: a role that provides one of these, or a role
    that wants attributes."""
    if not changed:
        return set()
    others = [catalogue[name] for name in changed]

    def rests(name: str) -> bool:
        return any(role.wants_attribs or any(role is other for other in others) for role in provided(catalogue, name))

    return {name for name in catalogue if rests(name)}


def watched(catalogue: Mapping[str, Role], name: str) -> tuple[str, ...]:
    """The places (``a/b/c``) of the attributes that a role has, and of those that it wants; in order."""
    own = provided(catalogue, name)
    found = {attrib.map for each in own for attrib in each.attribs}
    wanted = {wanted for each in own for wanted in each.wants_attribs}
    if wanted:
        found |= {attrib.map for role in catalogue.values() for attrib in role.attribs if attrib.name in wanted}
    return tuple(sorted(found))


def secret(catalogue: Mapping[str, Role], name: str) -> tuple[str, ...]:
    """The places of the attributes of a role that are secret; in order."""
    return tuple(sorted({attrib.map for each in provided(catalogue, name) for attrib in each.attribs if attrib.secret}))
