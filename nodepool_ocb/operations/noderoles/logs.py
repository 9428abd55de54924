"""``noderole log``: the run with the log that is asked for."""

from __future__ import annotations

from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.logs import RunChosen
from nodepool_ocb.operations.names import noderole_of
from nodepool_ocb.operations.operation import Near, Operation, Right, Situation, Steps, near_nodes
from nodepool_ocb.operations.reads.noderoles import ReadRuns
from nodepool_ocb.operations.reads.world import ReadWorld


class NoderoleLog(Operation[RunChosen], frozen=True, kw_only=True):
    """The named run of a noderole, or the one that is going on, or its newest; ``runlogs`` has its log."""

    noun = "noderole"
    verb = "log"
    right = Right.VIEWER
    reads = (ReadWorld, ReadRuns)

    noderole: str  # ROLE@FQDN
    run: str | None = None

    @property
    def near(self) -> Near | None:
        role, _, fqdn = self.noderole.partition("@")
        return near_nodes([fqdn], ancestors=False) if role else None

    def decide(self, situation: Situation) -> Steps[RunChosen]:  # noqa: ARG002
        world = yield from ReadWorld()
        vertex = noderole_of(world, self.noderole)
        recorded = yield from ReadRuns(vertex.role, vertex.node.name)
        known = [name for name, _ in recorded]
        running = vertex.record.run if vertex.record.state is State.TRANSITION else None
        wanted = self.run or running or next(reversed(known), None)
        if wanted is None:
            raise NotFound(f"{vertex.name} has not run yet; see: nodepool-ocb noderole explain {vertex.name}")
        if wanted not in known and wanted != running:
            raise NotFound(f"{vertex.name} has no run {self.run}; it has: {', '.join(known) or 'none'}")
        role = world.roles.get(vertex.role)
        jig = role.record.jig if role is not None else "(unknown)"
        return RunChosen(vertex.role, vertex.node.name, jig, vertex.record, wanted)
