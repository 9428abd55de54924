"""The data that the jigs which erase disks erase, for a person who agrees to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from nodepool_ocb.engine import inputs, installing
from nodepool_ocb.engine.inputs import InputSources
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.records import InstallRequest
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.provisioning import losses, orders

#: The disks that lose their data, and the image, in one sentence, for a wish of a person; raises Conflict for attributes
#: without sense.
Loss: TypeAlias = Callable[[InstallRequest | None], str]


def losses_of(world: World, vertices: Iterable[Vertex]) -> Steps[dict[Vertex, Loss]]:
    """The loss by each of these noderoles, in their order; the attributes of all are read at once."""
    sources = {vertex: inputs.sources(world, vertex, world.role_of(vertex)) for vertex in vertices}
    read = yield from ReadBlobs(tuple(dict.fromkeys(path for each in sources.values() for path in each.blobs)))
    blobs = dict(read)
    return {vertex: partial(_sentence, vertex, each, blobs) for vertex, each in sources.items()}


def _sentence(vertex: Vertex, sources: InputSources, blobs: dict[str, Any], request: InstallRequest | None) -> str:
    own = {path: blobs[path] for path in sources.blobs if path in blobs}
    try:
        wish = orders.wish(inputs.visible(inputs.layers(sources, own)))
        if installing.installs(vertex):
            return losses.sentence(vertex.node, orders.requested(wish, request))
        return losses.of_decommissioning(vertex.node, orders.retiring(wish, request))
    except Invalid as wrong:
        raise Conflict(f"{vertex.name} cannot be run: {wrong}") from None
