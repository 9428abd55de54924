"""What goes with a noderole that is unbound, or why it may not go. Pure."""

from __future__ import annotations

from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import State


def removable(vertex: Vertex) -> list[Vertex]:
    """What goes when a noderole is unbound: it and all below it, children first.

    Raises Conflict where something below was committed on another node, or works now, or a record that may be below
    cannot be read.
    """
    below: dict[Vertex, None] = {}
    queue = [vertex]
    unreadable.refuse_removal(vertex.node.world, [vertex.node])
    while queue:
        each = queue.pop()
        below.pop(each, None)
        below[each] = None  # again, at the end: children come after all their parents
        queue += each.children
    for each in below:
        if each is not vertex and each.node is not vertex.node and each.record.state is not State.PROPOSED:
            raise Conflict(f"{each.name} depends on {vertex.name}; unbind it first")
        if each.record.state is State.TRANSITION:
            raise Conflict(f"{each.name} is in TRANSITION; wait until it ends: nodepool-ocb noderole wait {each.name}")
    return list(reversed(below))
