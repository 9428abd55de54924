"""The data that an installation erases, for a person who agrees to it."""

from __future__ import annotations

from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.records import InstallRequest
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.provisioning import losses, orders


def loss(world: World, vertex: Vertex, request: InstallRequest | None) -> Steps[str]:
    """The disks that lose their data, and the image, in one sentence; raises Conflict for attributes without sense."""
    sources = inputs.sources(world, vertex, world.role_of(vertex))
    read = yield from ReadBlobs(tuple(sources.blobs))
    try:
        wish = orders.requested(orders.wish(inputs.visible(inputs.layers(sources, dict(read)))), request)
    except Invalid as wrong:
        raise Conflict(f"{vertex.name} cannot be run: {wrong}") from None
    return losses.sentence(vertex.node, wish)
