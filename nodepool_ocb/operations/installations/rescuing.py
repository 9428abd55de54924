"""``node rescue``: a machine boots the rescue environment, and back."""

from __future__ import annotations

from nodepool_ocb.engine import installing, liveness, reinstalling
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallPurpose, InstallStep
from nodepool_ocb.model.records import Change, Set
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.installations.decommissioning import BINDS, bound
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import installation as steps


class NodeRescue(Operation[Explained], frozen=True, kw_only=True):
    """Boot machines into the rescue environment, for a person; with ``end`` back into their own system. No disk is changed."""

    noun = "node"
    verb = "rescue"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes)
    writes = (*BINDS, "installation")

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    end: bool = False

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        views = yield from selection.nodes(world, self.nodes, self.selector)
        if self.end:
            yield from together.decided(world, views, lambda view: _ended(view, situation))
            return Explained()
        for view in views:
            reinstalling.refuse_out_of_service(view)
        chosen = yield from bound(world, views, installing.RESCUE, situation)

        def one(vertex: Vertex) -> list[Change]:
            return reinstalling.rescued(vertex.node, vertex.role, situation.now, situation.by)

        yield from together.decided(world, chosen, one)
        return Explained()


def _ended(view: NodeView, situation: Situation) -> list[Change]:
    """Empty if it is leaving; raises Conflict if the machine is not in the rescue environment."""
    found = installing.under_way(view)
    if found is None or found.record.purpose is not InstallPurpose.RESCUE:
        raise Conflict(f"no rescue of {view.name} is under way; see: nodepool-ocb installation show {view.name}")
    record = found.record
    if record.step in (InstallStep.LEAVING, InstallStep.PUBLISHED_LOCAL):
        return []
    if record.step is not InstallStep.IDENTIFIED:
        raise Conflict(
            f"{view.name} is on its way into the rescue environment (step {record.step}); wait, or end the run:"
            f" nodepool-ocb noderole cancel {record.noderole}"
        )
    after = steps.advanced(record, InstallStep.LEAVING, situation.now)
    local = liveness.changed(view.world, view, situation.now, situation.by, bootenv=steps.LOCAL)
    return [Set(paths.installation(view.name), after, found.version), *local]
