"""The content of ZooKeeper as one process sees it: nodes, noderoles as a graph, roles, deployments, daemons, and the
rollout that counts in each deployment.

store.world.load fills a World, and store.world.cache keeps it. A view may be old. Every decision is written with the
versions of the records that it was made from, so ZooKeeper refuses a stale decision. A cluster stands between its members
and their children, so that N members and M children cost N + M.

A record that cannot be decoded is named in ``unreadable``. The last good record stays if there was one: to be shown, and
for its edges. Nothing is decided from it, and nothing from its absence (nodepool_ocb.engine.unreadable).
"""

from nodepool_ocb.engine.world.census import CensusWorld
from nodepool_ocb.engine.world.near import Extent, NearWorld
from nodepool_ocb.engine.world.vertex import ClusterView, NodeView, Vertex, ancestors, opened, ordered_with
from nodepool_ocb.engine.world.world import Stored, World, node_of

__all__ = [
    "CensusWorld",
    "ClusterView",
    "Extent",
    "NearWorld",
    "NodeView",
    "Stored",
    "Vertex",
    "World",
    "ancestors",
    "node_of",
    "opened",
    "ordered_with",
]
