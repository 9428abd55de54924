"""What ZooKeeper holds, as one process sees it: nodes, noderoles as a graph, roles, deployments, daemons, and which
rollout counts in each deployment.

Filled by store.tree and kept by store.cache; read by whoever decides. A view may be old: every decision is written with
the versions that it was made from, so a stale one is refused. A cluster stands between its members and their children, so
that N members and M children cost N + M.

A record that cannot be decoded is named in ``unreadable``. The last good one stays where there was one, to be shown and
for its edges; nothing is decided from it, and nothing from its absence (nodepool_ocb.engine.unreadable).
"""

from nodepool_ocb.engine.world.vertex import ClusterView, NodeView, Vertex, ancestors, opened, ordered_with
from nodepool_ocb.engine.world.world import Stored, World, node_of

__all__ = [
    "ClusterView",
    "NodeView",
    "Stored",
    "Vertex",
    "World",
    "ancestors",
    "node_of",
    "opened",
    "ordered_with",
]
