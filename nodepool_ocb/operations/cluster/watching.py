"""One look at the states of all noderoles, for ``status --watch`` at a server of the API."""

from __future__ import annotations

from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.pictures.matrix import Matrix, SeenMatrix


class StatusWatchLook(Operation[SeenMatrix], frozen=True, kw_only=True):
    """The states of the noderoles, node by node, with the remarks on nodes."""

    noun = "status"
    verb = ""
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNoderoles)

    deployment: str | None = None
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[SeenMatrix]:
        """Raises NotFound for a name that does not exist, and Invalid for a wrong selector."""
        world = yield from ReadWorld()
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        meant = yield from selection.MatchNoderoles(self.selector)
        matrix = Matrix(
            lambda each: self.deployment in (None, each.record.deployment) and (meant is None or each.name in meant)
        )
        matrix.now = situation.now
        matrix.update(world, world.nodes)
        return matrix.seen
