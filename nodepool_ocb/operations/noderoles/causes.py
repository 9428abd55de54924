"""``noderole causes``: the noderoles in ERROR by cause."""

from __future__ import annotations

from nodepool_ocb.model.records import State
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.journal import EntriesBefore
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import causes
from nodepool_ocb.views.causes import ErrorCause


class NoderoleCauses(Operation[tuple[ErrorCause, ...]], frozen=True, kw_only=True):
    """The causes for which noderoles are in ERROR, the most frequent first."""

    noun = "noderole"
    verb = "causes"
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNoderoles, EntriesBefore)

    deployment: str | None = None
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[tuple[ErrorCause, ...]]:  # noqa: ARG002
        world = yield from ReadWorld()
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        meant = yield from selection.MatchNoderoles(self.selector)
        groups = causes.grouped(
            each
            for each in world.vertices()
            if each.record.state is State.ERROR
            and self.deployment in (None, each.record.deployment)
            and (meant is None or each.name in meant)
        )
        entries = yield from EntriesBefore(causes.moments(groups))
        return tuple(causes.row(group, entry) for group, entry in zip(groups, entries, strict=True))
