"""What a jig sees and what it leaves: blobs read in one request, merged, the wall written back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.catalogue import rules
from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.world import Vertex, World, ancestors
from nodepool_ocb.errors import Spoiled
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Json, Role, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, Znode

Blobs = Mapping[str, Znode | None]


class Sources(msgspec.Struct, frozen=True):
    """Where the attributes of a run come from, taken from the world on the turn thread."""

    vertex: Vertex
    role: Role
    active: tuple[Vertex, ...]  # the ACTIVE noderoles of the node
    above: tuple[tuple[Vertex, ...], ...]  # ancestors, the most distant first
    deployment_roles: Mapping[str, Json]  # noderole → its deployment role's attributes
    templates: Mapping[str, Mapping[str, Json]]  # noderole → its role's template


def sources(world: World, vertex: Vertex, role: Role) -> Sources:
    """Everything that the noderole may see (semantics: "The jig sees")."""
    active = tuple(v for v in vertex.node.noderoles.values() if v.record.state is State.ACTIVE and v is not vertex)
    above = tuple(tuple(row) for row in reversed(ancestors(vertex)))
    catalogue = {name: stored.record for name, stored in world.roles.items()}
    everyone = {v.name: v for v in (vertex, *active, *(v for row in above for v in row))}
    return Sources(
        vertex,
        role,
        tuple(sorted(active, key=lambda v: v.name)),
        above,
        {name: _of_deployment(world, v) for name, v in everyone.items()},
        {name: rules.template(catalogue, v.role) for name, v in everyone.items() if v.role in catalogue},
    )


def _of_deployment(world: World, vertex: Vertex) -> Json:
    stored = world.deployment_roles.get((vertex.record.deployment, vertex.role))
    return attributes.merge(stored.record.system, stored.record.user) if stored else {}


def read(session: Session, sources: Sources) -> Blobs:
    """The blobs of everyone who matters, in one read."""
    wanted = []
    for vertex in {
        v.name: v for v in (sources.vertex, *sources.active, *(v for row in sources.above for v in row))
    }.values():
        key = vertex.role, vertex.node.name
        wanted += [paths.wall(*key), paths.system(*key), paths.user(*key)]
    return dict(zip(wanted, session.get_many(wanted), strict=True))


def visible(sources: Sources, read: Blobs) -> dict[str, Json]:
    """What the jig is given; raises Spoiled."""

    def own(vertex: Vertex) -> list[Mapping[str, Json]]:
        key = vertex.role, vertex.node.name
        layers = (paths.wall(*key), paths.system(*key), paths.user(*key))
        return [codec.attributes(read[path]) for path in layers]

    layers: list[Mapping[str, Json]] = []
    for vertex in sources.active:
        layers += own(vertex)
    for row in sources.above:
        for vertex in row:
            layers += [sources.templates.get(vertex.name, {}), sources.deployment_roles[vertex.name], *own(vertex)]
    name = sources.vertex.name
    layers += [sources.templates.get(name, {}), sources.deployment_roles[name], *own(sources.vertex)]
    merged: Json = {}
    for layer in layers:
        merged = attributes.merge(merged, layer)
    return dict(merged)


def wall_changes(vertex: Vertex, read: Blobs, sent: Json, returned: Json) -> list[Change]:
    """The wall as it is to be written; nothing where it stays the same."""
    path = paths.wall(vertex.role, vertex.node.name)
    znode, wall = read[path], attributes.wall(sent, returned)
    if znode is None:
        return [Create(path, wall)] if wall else []
    try:
        before = codec.attributes(znode)
    except Spoiled:  # spoiled while the jig ran: it is written over
        return [Set(path, wall, znode.version)]
    wall = attributes.merge(before, wall)
    return [Set(path, wall, znode.version)] if wall != before else []
