"""``node decommission`` and ``node recommission``: machines leave service, with or without their data, and come back."""

from __future__ import annotations

from collections.abc import Sequence

from nodepool_ocb.engine import installing, reinstalling
from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.binding import plan_all
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.model.records import Change, InstallRequest, WipeMethod
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.commits.losing import losses_of
from nodepool_ocb.operations.installations.reinstalling import Reinstalled
from nodepool_ocb.operations.operation import AwaitedNoderoles, Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.operations.reads.world import ReadWorld

BINDS = ("node", "noderole", "deployment role")


def bound(world: World, views: Sequence[NodeView], jig: str, situation: Situation) -> Steps[list[Vertex]]:
    """The noderoles of this jig, which are bound where they are missing. Raises Conflict without a role of it."""
    roles = {view.name: reinstalling.role_with(view, jig) for view in views}
    jigs = active_jigs(world)

    def one(view: NodeView) -> Sequence[Change]:
        return plan_all(world, [roles[view.name]], view, now=situation.now, by=situation.by, jigs=jigs).changes

    yield from together.decided(world, [view for view in views if roles[view.name] not in view.noderoles], one)
    return [view.noderoles[roles[view.name]] for view in views]


class NodeDecommission(Operation[Reinstalled], frozen=True, kw_only=True):
    """Erase the disks of machines, switch them off, and take their nodes out of service.

    Needs ``allow_install`` of each node, unless the disks keep their data. A node that is decommissioned stays as it is.
    """

    noun = "node"
    verb = "decommission"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes, ReadBlobs, Agreement, *reservations.READS)
    writes = BINDS

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    wipe: WipeMethod | None = None  # in place of the method of the role
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Reinstalled]:
        world = yield from ReadWorld()
        views = yield from selection.nodes(world, self.nodes, self.selector)
        left = [view for view in views if view.record is not None and view.record.decommissioned is None]
        names = tuple(view.name for view in left)
        for view in left:
            reinstalling.refuse_erasure(view, self.wipe)
        chosen = yield from bound(world, left, installing.DECOMMISSION, situation)
        request = InstallRequest(wipe=self.wipe) if self.wipe is not None else None
        losses = yield from losses_of(world, chosen)
        lost = tuple(loss(request) for loss in losses.values())
        if chosen and not situation.call.dry_run:
            yield from Agreement(f"decommission {', '.join(names)}", lost, frozenset(names))

        def one(vertex: Vertex) -> list[Change]:
            return reinstalling.decommissioned(vertex.node, vertex.role, self.wipe, situation.now, situation.by)

        yield from reservations.guarded(world, chosen, together.decided(world, chosen, one), self.force)
        return Reinstalled(explanations=lost, nodes=names)

    def awaited(self, answer: Reinstalled) -> AwaitedNoderoles:
        """None: the other noderoles of a node that is decommissioned wait for ever."""
        return AwaitedNoderoles(nodes=answer.nodes, resolved=self.selector is not None)


class NodeRecommission(Operation[Explained], frozen=True, kw_only=True):
    """Put decommissioned nodes into service again. They are not alive until their machines are installed, or answer."""

    noun = "node"
    verb = "recommission"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes)
    writes = ("node", "noderole")

    nodes: tuple[str, ...] = ()
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        yield from together.decided(
            world, chosen, lambda view: reinstalling.recommissioned(view, situation.now, situation.by)
        )
        return Explained()
