"""A world that is brought to the records of an event."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import NodeRole


def advance(world: World, moved: Mapping[Vertex, NodeRole]) -> None:
    """As a written transaction with these records does."""
    for vertex, record in moved.items():
        world.put_noderole(vertex.node.name, vertex.role, record, vertex.version + 1, vertex.mzxid)
