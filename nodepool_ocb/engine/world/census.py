"""A World to count in: of nodes with equal noderoles it has those of one, and the number of nodes that this one stands for.

A decision that asks for a noderole of another such node gets Unread, never a wrong answer. So does one that iterates over
``vertices``: it must take ``counted``, with ``stands_for`` of each node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nodepool_ocb.engine.world.near import UnreadSet, sealed
from nodepool_ocb.engine.world.vertex import Vertex
from nodepool_ocb.engine.world.world import World


class CensusWorld(World):
    """Loaded as any other, but for the noderoles of the nodes ``left_out``."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out: set[str] = set()

    def leave_out(self, fqdn: str, alike: Collection[str]) -> None:
        """Let one node stand for these others, too."""
        self.node(fqdn).stands_for += len(alike)
        for name in alike:
            view = self.node(name)
            view.stands_for, view.noderoles = 0, sealed({})
            view.ready, view.failed = UnreadSet(), UnreadSet()
        self.left_out.update(alike)

    def counted(self) -> Iterator[Vertex]:
        for view in self.nodes.values():
            if view.name not in self.left_out:
                yield from view.noderoles.values()
