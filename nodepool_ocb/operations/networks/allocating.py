"""``network allocate`` and ``release``: addresses of networks for nodes."""

from __future__ import annotations

from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.operations.names import node_of, record_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.networks.changing import network_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.addressing.placing import Placing


class NetworkAllocate(Operation[Explained], frozen=True, kw_only=True):
    """Allocate an address of a network to a node: the given one, else the lowest that is free, of each family."""

    noun = "network"
    verb = "allocate"
    right = Right.OPERATOR
    reads = (ReadWorld, *placement.READS)
    writes = ("node", "noderole", *placement.WRITES)

    network: str
    node: str
    address: str | None = None

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        network_of(world, self.network)
        view = node_of(world, self.node)
        if record_of(view).deleting:
            raise Conflict(f"node {self.node} is being deleted; create it anew first")
        held = yield from placement.ledger(world, situation, (), (self.node,))
        found = Placing(held, self.node, record_of(view), situation.now)
        if self.address is None:
            found.lowest(self.network, named=True)
        else:
            found.take(self.network, self.address)
        yield from _written(world, view, situation, found)
        return Explained(notes=tuple(f"{self.node}: {each}" for each in found.gained))


class NetworkRelease(Operation[Explained], frozen=True, kw_only=True):
    """Release an address of a node, or all that it has in the network; they are in quarantine then."""

    noun = "network"
    verb = "release"
    right = Right.OPERATOR
    reads = (ReadWorld, *placement.READS)
    writes = ("node", "noderole", *placement.WRITES)

    network: str
    node: str
    address: str | None = None

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        network_of(world, self.network)
        view = node_of(world, self.node)
        held = yield from placement.ledger(world, situation, (), (self.node,))
        found = Placing(held, self.node, record_of(view), situation.now)
        found.release(self.network, self.address)
        yield from _written(world, view, situation, found)
        return Explained()


def _written(world: World, view: NodeView, situation: Situation, found: Placing) -> Steps[None]:
    node = liveness.changed(world, view, situation.now, situation.by, **found.fields)
    yield [*found.changes, *node]
