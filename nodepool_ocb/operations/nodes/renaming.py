"""``node rename``."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine import renaming
from nodepool_ocb.model import paths
from nodepool_ocb.model.kinds import OF_NODE
from nodepool_ocb.model.records import Set
from nodepool_ocb.operations.names import node_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.nodes.domain import admin_domain
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import ReadRegistrations
from nodepool_ocb.operations.reads.world import ReadBranch, ReadWorld


class NodeRename(Operation[Explained], frozen=True, kw_only=True):
    """Give a node another name, with its noderoles; nothing runs again because of that.

    Refused while a run is under way on the node, or while a rollout or a run of tasks may start one. The registration of its
    machine follows: the machine gets the new name and a new token at its next poll.
    """

    noun = "node"
    verb = "rename"
    right = Right.OPERATOR
    reads = (ReadWorld, ReadBranch, ReadRegistrations, *placement.READS)
    writes = (
        "node",
        *OF_NODE,
        "noderole",
        "attributes",
        "network",
        "registration",
        *placement.WRITES,
    )

    node: str
    name: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        node_of(world, self.node)
        branch = yield from ReadBranch(paths.node(self.node))
        domain = admin_domain(world, situation.settings)
        own = renaming.rename(world, self.node, self.name, branch.deletions, branch.contents, admin_domain=domain)
        held = yield from placement.moved(world, self.node, self.name)
        registered = yield from ReadRegistrations()
        following = [
            Set(paths.registration(mac), replace(stored.record, node=self.name), stored.version)
            for mac, stored in sorted(registered.items())
            if stored.record.node == self.node
        ]
        yield [*own, *held, *following]
        return Explained()
