"""``node list`` and ``node show``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of, node_of, record_of
from nodepool_ocb.operations.operation import Near, Operation, Right, Situation, Steps, near_nodes
from nodepool_ocb.operations.reads.world import ReadNodeStates, ReadWorld
from nodepool_ocb.views import nodes as shown
from nodepool_ocb.views.nodes import NodeDocument, NodeRow


class NodeList(Operation[list[NodeRow]], frozen=True, kw_only=True):
    """Every node, with its worst noderole's state."""

    noun = "node"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, ReadNodeStates, selection.MatchNodes)

    deployment: str | None = None
    tags: tuple[str, ...] = ()  # all of them
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[list[NodeRow]]:
        if self.selector is None:
            world, counts = yield from ReadNodeStates()
        else:
            world, counts = (yield from ReadWorld()), None
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        meant = yield from selection.MatchNodes(self.selector)
        return shown.rows(world, self.deployment, self.tags, self.labels, meant, counts, now=situation.local_now)


class NodeShow(Operation[NodeDocument], frozen=True, kw_only=True):
    """One node, and its noderoles."""

    noun = "node"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    node: str

    @property
    def near(self) -> Near | None:
        return near_nodes([self.node], ancestors=False)

    def decide(self, situation: Situation) -> Steps[NodeDocument]:
        world = yield from ReadWorld()
        view = node_of(world, self.node)
        return shown.document(view, record_of(view), situation.local_now)
