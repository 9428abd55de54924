"""What changed in a world since somebody looked at it last."""

from __future__ import annotations

import msgspec

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Claim,
    Daemon,
    Deployment,
    DeploymentRole,
    Node,
    NodeRole,
    Role,
    RolloutPointer,
    TaskRunPointer,
)
from nodepool_ocb.store.world.paths import WorldPath


class ChangeSet(msgspec.Struct):
    """What changed in a world: noderoles (gone ones too), nodes by name, and whether anything of the other kinds did.

    ``turned`` are those that wait for more or fewer parents than before; ``nodes`` holds the nodes of all of them.
    """

    vertices: set[Vertex] = msgspec.field(default_factory=set)
    turned: set[Vertex] = msgspec.field(default_factory=set)
    nodes: set[str] = msgspec.field(default_factory=set)
    roles: bool = False
    deployments: bool = False
    daemons: bool = False
    rollouts: bool = False
    task_runs: bool = False
    attributes: bool = False  # some that could not be read can be again

    def __bool__(self) -> bool:
        driven = self.rollouts or self.task_runs
        others = self.roles or self.deployments or self.daemons or driven or self.attributes
        return bool(self.vertices or self.nodes or others)

    def concerned(self, world: World, at: WorldPath) -> None:
        """Add all whom it concerns that a record cannot be read, or can again."""
        if at.kind is NodeRole:
            name = paths.noderole_name(at.below, at.name)
            vertex = world.vertex(name)
            children = world.below(name)
            self.vertices.update(children if vertex is None else (vertex, *children))
            self.nodes.update(child.node.name for child in children)
        self.nodes.update({at.name} if at.kind in (Node, NodeRole, Claim) else ())
        self.roles |= at.kind is Role
        self.deployments |= at.kind in (Deployment, DeploymentRole)
        self.daemons |= at.kind is Daemon
        self.rollouts |= at.kind is RolloutPointer
        self.task_runs |= at.kind is TaskRunPointer
