"""A World with one node, its noderoles, and the parents that these wait for: a command that shows a node reads no more.

Everything else is absent from it, so no decision may be made from it.
"""

from __future__ import annotations

from typing import Final

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import WorldTree
from nodepool_ocb.store.world.paths import ROWS, path_of

#: The kinds of records of a node, beside its noderoles.
_OF_NODE: Final = tuple(kind for kind, row in ROWS.items() if row.holes == ("node",))


def near_world(session: Session, fqdn: str) -> World | None:
    """None if a part of it is not as expected, and all has to be read: an absent node, a record that cannot be read, a cluster.

    Raises Unavailable or Denied.
    """
    world = World()
    tree = WorldTree(world)
    folder = paths.noderoles(fqdn)
    own = [path_of(kind, fqdn) for kind in _OF_NODE]
    _put(session, tree, [*own, *(f"{folder}/{role}" for role in session.children(folder) or ())])
    view = world.nodes.get(fqdn)
    if view is None or view.record is None:
        return None
    waiting = [vertex for vertex in view.noderoles.values() if vertex.record.state is State.BLOCKED]
    above = {name for vertex in waiting for name in vertex.record.parents if world.vertex(name) is None}
    if any(paths.split_cluster(name) is not None for name in above):
        return None  # its members may be on any node
    _put(session, tree, [paths.noderole(*paths.split_noderole(name)) for name in sorted(above)])
    return None if world.unreadable else world


def _put(session: Session, tree: WorldTree, wanted: list[str]) -> None:
    for path, znode in zip(wanted, session.get_many(wanted), strict=True):
        if znode is not None:
            tree.put(path, znode)
