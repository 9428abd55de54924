"""The recent runs of many noderoles, for the timeline of the page and ``noderole list --runs``."""

from __future__ import annotations

from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.noderoles import ReadNewestRuns
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import timeline
from nodepool_ocb.views.timeline import RunTimeline


class NoderoleListRuns(Operation[RunTimeline], frozen=True, kw_only=True):
    """The recent runs of noderoles, and those that run or wait now; of the nodes that changed last."""

    noun = "noderole"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, selection.ResolveNoderoles, ReadNewestRuns)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None
    resolved: bool = False  # a selector meant the noderoles: there may be none

    def decide(self, situation: Situation) -> Steps[RunTimeline]:
        if not self.noderoles and self.selector is None and not self.resolved:
            raise Invalid("name noderoles, or give a selector such as deployment:lab")
        world = yield from ReadWorld()
        chosen = yield from selection.noderoles(world, self.noderoles, self.selector)
        shown, left_out = timeline.lanes(chosen)
        places = tuple((vertex.role, vertex.node.name) for vertex in shown)
        runs = yield from ReadNewestRuns(places, timeline.runs_each(len(shown)))
        return timeline.timeline(shown, runs, situation.now, left_out)
