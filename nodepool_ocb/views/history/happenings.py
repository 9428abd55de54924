"""Events of nodes and noderoles: their states, and the differences of two moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Node
from nodepool_ocb.views.view import View

#: (kind, name) → the state
States = Mapping[tuple[str, str], str]


class StateEvent(View, frozen=True, kw_only=True):
    """A node or a noderole has another state than before; None: it does not exist."""

    at: float
    kind: str
    name: str
    old: str | None
    new: str | None


def states(world: World) -> States:
    """The states of all nodes and noderoles."""
    found = {("node", name): state(view.record) for name, view in world.nodes.items() if view.record is not None}
    return found | {("noderole", vertex.name): str(vertex.record.state) for vertex in world.vertices()}


def changed(before: States, after: States, at: float) -> Iterator[StateEvent]:
    """The states that differ, by kind and name.

    >>> [event.new for event in changed({("node", "n1.x"): "dead", ("node", "n2.x"): "dead"}, {("node", "n1.x"): "alive"}, 5.0)]
    ['alive', None]
    """
    for kind, name in sorted(before.keys() | after.keys()):
        old, new = before.get((kind, name)), after.get((kind, name))
        if old != new:
            yield StateEvent(at=at, kind=kind, name=name, old=old, new=new)


def state(node: Node) -> str:
    """In words.

    >>> state(Node(alive=True)), state(Node(available=False, deleting=True))
    ('alive', 'dead, unavailable, deleting')
    """
    words = ("alive" if node.alive or node.virtual else "dead", "" if node.available else "unavailable")
    return ", ".join(
        word for word in (*words, "held" if node.hold else "", "deleting" if node.deleting else "") if word
    )
