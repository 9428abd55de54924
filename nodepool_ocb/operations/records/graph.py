"""``graph``."""

from __future__ import annotations

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import deployment_of, noderole_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.graphs import noderoles as shown
from nodepool_ocb.views.graphs.noderoles import Graph


class GraphDraw(Operation[Graph], frozen=True, kw_only=True):
    """The noderoles, sorted by name, and the edges from parents to children."""

    noun = "graph"
    verb = ""
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNoderoles, *outdated.READS)

    deployment: str | None = None  # only noderoles of this deployment
    around: str | None = None  # ROLE@FQDN: only the noderoles above and below it
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[Graph]:  # noqa: ARG002
        world = yield from ReadWorld()
        meant = yield from selection.MatchNoderoles(self.selector)
        return shown.document([each for each in self._chosen(world) if meant is None or each.name in meant])

    def _chosen(self, world: World) -> list[Vertex]:
        chosen = set(shown.around(noderole_of(world, self.around)) if self.around else world.vertices())
        if self.deployment is not None:
            deployment_of(world, self.deployment)
            chosen = {vertex for vertex in chosen if vertex.record.deployment == self.deployment}
        return sorted(chosen, key=lambda vertex: vertex.name)
