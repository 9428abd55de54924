"""The changes of a World since a daemon took them last."""

from __future__ import annotations

import msgspec

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import Record


class ChangeSet(msgspec.Struct):
    """The noderoles that changed (deleted ones too), nodes by name, and the kinds of all other records that changed.

    ``turned`` are the noderoles that wait for more or fewer parents than before; ``nodes`` has the nodes of all of them.
    Records of a node (its claim, its fence) count as changes of the node. The row of a kind says which writes count.
    """

    vertices: set[Vertex] = msgspec.field(default_factory=set)
    turned: set[Vertex] = msgspec.field(default_factory=set)
    nodes: set[str] = msgspec.field(default_factory=set)
    kinds: set[type[Record]] = msgspec.field(default_factory=set)
    attributes: bool = False  # some that could not be read can be again

    def __bool__(self) -> bool:
        return bool(self.vertices or self.nodes or self.kinds or self.attributes)

    def has(self, *kinds: type[Record]) -> bool:
        """Whether a record of one of these kinds changed."""
        return not self.kinds.isdisjoint(kinds)
