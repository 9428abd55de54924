"""What ZooKeeper holds, as one process sees it: nodes, noderoles as a graph, roles, deployments, daemons, and which
rollout counts in each deployment.
"""

from nodepool_ocb.engine.world.world import (
    ClusterView,
    NodeView,
    Stored,
    Vertex,
    World,
    ancestors,
    node_of,
    opened,
    ordered_with,
)

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
