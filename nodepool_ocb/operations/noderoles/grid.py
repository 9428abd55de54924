"""The states of all noderoles of a deployment in one small document, for the matrix of the page."""

from __future__ import annotations

from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import grid
from nodepool_ocb.views.grid import NoderoleGrid


class NoderoleListStates(Operation[NoderoleGrid], frozen=True, kw_only=True):
    """The states of noderoles as letters, node by node and role by role."""

    noun = "noderole"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNoderoles)

    deployment: str | None = None
    selector: str | None = None
    roles_only: bool = False  # the numbers of each role, without any node

    def decide(self, situation: Situation) -> Steps[NoderoleGrid]:
        world = yield from ReadWorld()
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        meant = yield from selection.MatchNoderoles(self.selector)
        wanted = (
            each
            for each in world.vertices()
            if self.deployment in (None, each.record.deployment) and (meant is None or each.name in meant)
        )
        made = grid.grid(world, wanted, situation.now)
        return made.numbers() if self.roles_only else made
