"""``deployment list`` and ``show``."""

from __future__ import annotations

import msgspec

from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import deployments as shown
from nodepool_ocb.views.deployments import DeploymentBranch, DeploymentDocument, DeploymentRow


class DeploymentList(Operation[list[DeploymentRow]], frozen=True, kw_only=True):
    """Every deployment, with the states of its noderoles."""

    noun = "deployment"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld,)

    def decide(self, situation: Situation) -> Steps[list[DeploymentRow]]:
        world = yield from ReadWorld()
        return list(shown.rows(world, situation.local_now))


class DeploymentShown(msgspec.Struct, frozen=True):
    """The document, and the deployments around this one as a tree."""

    document: DeploymentDocument
    tree: DeploymentBranch


class DeploymentShow(Operation[DeploymentShown], frozen=True, kw_only=True):
    """One deployment: its place in the tree, its roles with their attributes, and its noderoles."""

    noun = "deployment"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    name: str

    def decide(self, situation: Situation) -> Steps[DeploymentShown]:
        world = yield from ReadWorld()
        deployment_of(world, self.name)
        return DeploymentShown(shown.document(world, self.name, situation.local_now), shown.tree(world, self.name))
