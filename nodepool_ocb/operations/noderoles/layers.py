"""The layers of a noderole's attributes. Pure: functions that need a read yield it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.names import catalogue
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.views.noderoles import Layers

READS: Final = (ReadBlobs,)


def below(world: World, vertex: Vertex) -> Mapping[str, Json]:
    """The attributes below the user's own: the defaults of the role, and those of the deployment."""
    from nodepool_ocb.catalogue import rules  # here, since jsonschema takes long to import

    shared = world.deployment_roles.get((vertex.record.deployment, vertex.role))
    return attributes.merge(rules.template(catalogue(world), vertex.role), shared.record.user if shared else {})


def own(vertex: Vertex, *, reveal: bool = False) -> Steps[Layers]:
    """The noderole's own layers; values that are declared as secret are concealed, unless ``reveal``."""
    role, fqdn = vertex.role, vertex.node.name
    places = {"user": paths.user(role, fqdn), "system": paths.system(role, fqdn), "wall": paths.wall(role, fqdn)}
    read = yield from ReadBlobs(tuple(places.values()))
    declared = frozenset() if reveal else concealing.of_world(vertex.node.world)
    return Layers(**{layer: concealing.wrapped(dict(read.get(path, {})), declared) for layer, path in places.items()})


def by_giver(vertex: Vertex) -> Steps[Mapping[str, Mapping[str, Json]]]:
    """All layers, the lowest first, by the words for their giver."""
    from nodepool_ocb.catalogue import rules

    world = vertex.node.world
    ours = yield from own(vertex)
    shared = world.deployment_roles.get((vertex.record.deployment, vertex.role))
    return {
        f"by default of role {vertex.role}": rules.template(catalogue(world), vertex.role),
        f"from the hooks of deployment {vertex.record.deployment}": shared.record.system if shared else {},
        f"from deployment {vertex.record.deployment}": shared.record.user if shared else {},
        "from its last run": ours.wall,
        "from hooks": ours.system,
        "from its user": ours.user,
    }
