"""``node commit``."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.operations import outside, selection
from nodepool_ocb.operations.commits import committing
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.operation import AwaitedNoderoles, Near, Operation, Right, Situation, Steps, near_nodes
from nodepool_ocb.operations.reads.world import ReadWorld


class NodeCommit(Operation[Committed], frozen=True, kw_only=True):
    """Commit the PROPOSED noderoles of nodes, and run their outdated ones again in place.

    Refused without ``force`` if a rollout under way reserves one of them. A note counts the noderoles outside the limits of the
    caller, which stay as they are.
    """

    noun = "node"
    verb = "commit"
    right = Right.OPERATOR
    reads = (*committing.READS, selection.ResolveNodes)
    writes = committing.WRITES

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    force: bool = False

    @property
    def near(self) -> Near | None:
        return near_nodes(self.nodes, self.selector)

    def decide(self, situation: Situation) -> Steps[Committed]:
        world = yield from ReadWorld()
        views = yield from selection.nodes(world, self.nodes, self.selector)
        names = tuple(view.name for view in views)
        every = [vertex for view in views for vertex in view.noderoles.values()]
        bound = situation.own(world, every)
        deploymentroles.refuse_noderoles(world, bound)
        unreadable.refuse_commit(world, bound, [view.name for view in views])
        answer = yield from committing.commit(world, situation, bound, self.force)
        return replace(answer, chosen=names, notes=outside.left_alone(len(every) - len(bound)))

    def awaited(self, answer: Committed) -> AwaitedNoderoles:
        """The noderoles of the chosen nodes."""
        return AwaitedNoderoles(nodes=answer.chosen, resolved=self.selector is not None)
