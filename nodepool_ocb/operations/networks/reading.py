"""``network list``, ``show`` and ``addresses``."""

from __future__ import annotations

from nodepool_ocb.model.networks import Network
from nodepool_ocb.operations.networks.changing import network_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import ReadNetworkAddresses
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.provisioning import networks as shown
from nodepool_ocb.views.provisioning.networks import AddressRow, NetworkDocument, NetworkRow


class NetworkList(Operation[list[NetworkRow]], frozen=True, kw_only=True):
    """Every network."""

    noun = "network"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld,)

    def decide(self, situation: Situation) -> Steps[list[NetworkRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        return shown.rows({name: stored.record for name, stored in world.of(Network).items()}, world)


class NetworkShow(Operation[NetworkDocument], frozen=True, kw_only=True):
    """One network, with the parts of its dynamic ranges that each admin node offers."""

    noun = "network"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    network: str

    def decide(self, situation: Situation) -> Steps[NetworkDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        return shown.document(self.network, network_of(world, self.network).record)


class NetworkAddresses(Operation[list[AddressRow]], frozen=True, kw_only=True):
    """The addresses of a network that are allocated or in quarantine, by number."""

    noun = "network"
    verb = "addresses"
    right = Right.VIEWER
    reads = (ReadWorld, ReadNetworkAddresses)

    network: str

    def decide(self, situation: Situation) -> Steps[list[AddressRow]]:  # noqa: ARG002
        world = yield from ReadWorld()
        record = network_of(world, self.network).record
        found = yield from ReadNetworkAddresses(self.network)
        return shown.addresses(record, found)
