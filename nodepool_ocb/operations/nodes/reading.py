"""``node list`` and ``node show``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of, node_of, record_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadNode, ReadWorld
from nodepool_ocb.views import nodes as shown
from nodepool_ocb.views.nodes import NodeDocument, NodeRow


class NodeList(Operation[list[NodeRow]], frozen=True, kw_only=True):
    """Every node, with its worst noderole's state."""

    noun = "node"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNodes)

    deployment: str | None = None
    tags: tuple[str, ...] = ()  # all of them
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[list[NodeRow]]:
        world = yield from ReadWorld()
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        meant = yield from selection.MatchNodes(self.selector)
        return list(shown.rows(world, self.deployment, self.tags, self.labels, meant, now=situation.local_now))


class NodeShow(Operation[NodeDocument], frozen=True, kw_only=True):
    """One node, and its noderoles."""

    noun = "node"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadNode,)

    node: str

    def decide(self, situation: Situation) -> Steps[NodeDocument]:
        world = yield from ReadNode(self.node)
        view = node_of(world, self.node)
        return shown.document(view, record_of(view), situation.local_now)
