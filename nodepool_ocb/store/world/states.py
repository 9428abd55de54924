"""The nodes of a tree, each with the number of noderoles in each state: a list of nodes needs no records of noderoles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import is_name
from nodepool_ocb.model.records import Deployment, Node, NodeRole, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import WorldTree, undisturbed
from nodepool_ocb.store.world.paths import listing, path_of


class NodeStates(msgspec.Struct, frozen=True):
    """A world without noderoles, and by node the number of those in each state."""

    world: World
    counts: Mapping[str, Counter[State]]


def node_states(session: Session) -> NodeStates | None:
    """None if a record cannot be read, so that all has to be read. Raises Unavailable or Denied."""
    world = World()
    tree = WorldTree(world)
    listed = listing(session, (Deployment, Node, NodeRole))
    wanted = [path_of(kind, *names) for kind in (Deployment, Node) for names in listed.names(kind)]
    nodes = listed.bound
    wanted += map(paths.claim, nodes)
    counts = {name: Counter[State]() for name in nodes}
    with undisturbed():
        for path, znode in zip(wanted, session.stream(wanted), strict=True):
            if znode is not None:
                tree.put(path, znode)
        states = session.stream_bytes(listed.noderoles)
        state = codec.state
        try:
            for name, own in nodes.items():
                for data in [next(states) for _ in own]:
                    if data is not None:
                        counts[name][state(data)] += 1
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
    named = all(map(is_name, {role for own in nodes.values() for role in own}))
    return NodeStates(world, counts) if named and not world.unreadable else None
