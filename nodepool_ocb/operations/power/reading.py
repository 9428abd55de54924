"""``power list`` and ``power show``."""

from __future__ import annotations

from nodepool_ocb.engine import powering
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import node_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.provisioning import power as shown
from nodepool_ocb.views.provisioning.power import PowerDocument, PowerRow


class PowerList(Operation[list[PowerRow]], frozen=True, kw_only=True):
    """The power of every machine with power settings."""

    noun = "power"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNodes)

    nodes: tuple[str, ...] = ()  # these alone; without any, all
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[list[PowerRow]]:
        world = yield from ReadWorld()
        found = powering.powers(world)
        names = yield from selection.among(world, found.keys(), self.nodes, self.selector)
        return [shown.row(name, found[name].record, situation.local_now) for name in names]


class PowerShow(Operation[PowerDocument], frozen=True, kw_only=True):
    """The power of one machine: its access without the password, its state, and its newest request."""

    noun = "power"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    node: str

    def decide(self, situation: Situation) -> Steps[PowerDocument]:
        world = yield from ReadWorld()
        node_of(world, self.node)
        return shown.document(self.node, powering.record_of(world, self.node).record, situation.local_now)
