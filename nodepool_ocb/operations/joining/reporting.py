"""The reports of a machine about its node: its facts, and that it goes down. ``node alive`` is beside them."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.engine import installing, liveness
from nodepool_ocb.errors import Denied, NotFound
from nodepool_ocb.model import tokens
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.joining import Inventory, MachineFacts
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.joining import making
from nodepool_ocb.operations.names import node_of
from nodepool_ocb.operations.nodes.changing import ENDING_WRITES
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.joining import inventories
from nodepool_ocb.views.view import View


class FactsDocument(View, frozen=True, kw_only=True):
    """The facts of a machine, and their age."""

    node: str
    at: float
    by: str | None
    facts: MachineFacts


class NodeMachine(Operation[FactsDocument], frozen=True, kw_only=True):
    """The facts of the machine of a node."""

    noun = "node"
    verb = "machine"
    right = Right.VIEWER
    reads = (ReadWorld,)

    node: str

    def decide(self, situation: Situation) -> Steps[FactsDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        node_of(world, self.node)
        stored = world.of(Inventory).get(self.node)
        if stored is None:
            raise NotFound(f"node {self.node} has no inventory; first: nodepool-ocb node inventory {self.node} FILE")
        return FactsDocument(node=self.node, at=stored.record.at, by=stored.record.by, facts=stored.record.facts)


class NodeInventory(Operation[Explained], frozen=True, kw_only=True):
    """Store the facts of the machine of a node. The user of a pool's machine may not: pools choose machines by their facts."""

    noun = "node"
    verb = "inventory"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("inventory",)

    node: str
    inventory: Mapping[str, Json]

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Raises TooLarge, Invalid or Denied. The same facts again write nothing."""
        world = yield from ReadWorld()
        view = node_of(world, self.node)
        if situation.by == tokens.of_machine(view.name) and installing.in_use(view) and not installing.under_way(view):
            raise Denied(
                f"{self.node} is lent by a pool, so its user may not change the facts by which pools choose machines; an"
                f" operator may: nodepool-ocb node inventory {self.node} FILE"
            )
        facts = inventories.facts_of(self.inventory)
        before = world.of(Inventory).get(self.node)
        if before is None or before.record.facts != facts:
            record = Inventory(facts=facts, at=situation.now, by=situation.by)
            yield [making.stored_inventory(world, self.node, record)]
        return Explained()


class NodeGoingDown(Operation[Explained], frozen=True, kw_only=True):
    """The machine says that it stops: its node is not alive. A person's mark stays."""

    noun = "node"
    verb = "going-down"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ENDING_WRITES

    node: str
    reason: str | None = None

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        view = node_of(world, self.node)
        reason = (self.reason or "the machine goes down")[:300]
        changes = liveness.changed(
            world, view, situation.now, situation.by, marker=Marker.MACHINE, alive=False, reason=reason
        )
        if changes:
            yield changes
        return Explained()
