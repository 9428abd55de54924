"""The noderoles that go with one that is unbound, or the refusal. Pure."""

from __future__ import annotations

from collections.abc import Collection

from nodepool_ocb.engine import deployments, unreadable
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import State


def removable(vertex: Vertex, besides: Collection[Vertex] = ()) -> list[Vertex]:
    """The noderoles that go when one is unbound: it and all below it, children first. ``besides``: noderoles unbound with it.

    Raises Conflict if a noderole below was committed on another node and is not among ``besides``, or if one of them is in
    TRANSITION. Raises Conflict also for a record that may be below and cannot be read. The same holds for a member of a run of
    tasks that is not over.
    """
    below: dict[Vertex, None] = {}
    queue = [vertex]
    unreadable.refuse_removal(vertex.node.world, [vertex.node])
    while queue:
        each = queue.pop()
        below.pop(each, None)
        below[each] = None  # again, at the end: children come after all their parents
        queue += each.children
    deployments.refuse_driven(vertex.node.world, below)
    for each in below:
        if (
            each is not vertex
            and each not in besides
            and each.node is not vertex.node
            and each.record.state is not State.PROPOSED
        ):
            raise Conflict(f"{each.name} depends on {vertex.name}; first: nodepool-ocb noderole unbind {each.name}")
        if each.record.state is State.TRANSITION:
            raise Conflict(f"{each.name} is in TRANSITION; wait until it ends: nodepool-ocb noderole wait {each.name}")
    return list(reversed(below))


def removable_together(vertices: Collection[Vertex]) -> list[Vertex]:
    """The noderoles that go when several are unbound at once; they may depend on one another."""
    chosen = set(vertices)
    found = {each: None for vertex in vertices for each in removable(vertex, chosen)}
    return sorted(found, key=lambda each: (-each.node.world.depth(each), each.name))
