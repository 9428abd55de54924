"""``network create``, ``set``, ``delete``, ``serve`` and ``unserve``: networks, and the admin nodes that serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents.assigned import valid
from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import structure, unreadable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.networks import Network, Quarantine, RelaySegment
from nodepool_ocb.model.ranges import Mtu, SliceCount, Vlan
from nodepool_ocb.model.records import Change, Create, Delete, Set
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations.names import node_of, record_of, unknown
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.networks import EnsureNetworks, ReadNetworkAddresses
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.addressing import assigning as fields
from nodepool_ocb.provisioning.addressing import networks, slices
from nodepool_ocb.provisioning.addressing.found import FoundAddress

KEYS: Final = fields.KEYS


class NewNetwork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The fields of a network that its creator chooses; docs/networks.md explains them."""

    subnet: str = ""
    subnet6: str = ""
    router: str = ""
    router6: str = ""
    domain: str = ""
    nameservers: tuple[str, ...] = ()
    ntp: tuple[str, ...] = ()
    vlan: Vlan | None = None
    mtu: Mtu = 1500
    ranges: Mapping[str, str] = {}
    proxy: bool = False
    segments: tuple[RelaySegment, ...] = ()
    quarantine_seconds: Quarantine = 86400.0
    slice_count: SliceCount = 4

    @classmethod
    def of(cls, words: Iterable[str]) -> NewNetwork:
        """From KEY=VALUE. Raises Invalid."""
        record = fields.assigned(Network(), assigning.pairs(words))
        return cls(**{name: getattr(record, name) for name in cls.__struct_fields__})

    @property
    def record(self) -> Network:
        """The record of the new network. Raises Invalid for a number outside of its limits."""
        return valid(Network(**{name: getattr(self, name) for name in self.__struct_fields__}), "network")


def network_of(world: World, name: str) -> Stored[Network]:
    """Raises NotFound, or Conflict for a record that cannot be read."""
    unreadable.refuse(world, [paths.network(name)])
    known = world.of(Network)
    if name not in known:
        raise unknown("network", name, known)
    return known[name]


class NetworkCreate(Operation[Explained], frozen=True, kw_only=True):
    """Create a network. It is checked as a whole: subnets, ranges, routers, and the other networks."""

    noun = "network"
    verb = "create"
    right = Right.OPERATOR
    reads = (ReadWorld, EnsureNetworks)
    writes = ("network",)

    name: str
    network: NewNetwork

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        known: Mapping[str, Stored[Network]] = world.of(Network)
        record = networks.checked(self.name, self.network.record, known)
        unreadable.refuse(world, [paths.network(self.name)])
        if self.name in known:
            raise Conflict(f"network {self.name} exists already; see: nodepool-ocb network show {self.name}")
        yield from EnsureNetworks()
        made: list[Change] = [Create(paths.network(self.name), record), Create(paths.network_addresses(self.name))]
        yield structure.raised(world, made)
        return Explained()


class NetworkSet(Operation[Explained], frozen=True, kw_only=True):
    """Set fields of a network. An allocated address stays in its subnets; one outside of a range stays allocated."""

    noun = "network"
    verb = "set"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("network",)

    network: str
    assignments: tuple[str, ...]  # KEY=VALUE

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        stored = network_of(world, self.network)
        after = fields.assigned(stored.record, assigning.pairs(self.assignments))
        if after == stored.record:
            return Explained()
        networks.checked(self.network, after, world.of(Network))
        networks.refuse_outside(self.network, after, world)
        yield from _written(world, self.network, stored, after)
        return Explained()


class NetworkDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete a network without allocated addresses; those in quarantine go with it."""

    noun = "network"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadWorld, ReadNetworkAddresses, Agreement)
    writes = ("network", "address")

    network: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        stored = network_of(world, self.network)
        found = yield from ReadNetworkAddresses(self.network)
        if owned := _allocated(found):
            names = some([f"{address} ({node})" for address, node in sorted(owned.items())])
            raise Conflict(
                f"network {self.network} has allocated addresses: {names};"
                f" first: nodepool-ocb network release {self.network} NODE"
            )
        if not situation.call.dry_run:
            yield from Agreement(f"delete network {self.network}")
        leaves = [Delete(paths.network_address(self.network, each), one.version) for each, one in sorted(found.items())]
        last: list[Change] = [
            Delete(paths.network_addresses(self.network), 0),
            Delete(paths.network(self.network), stored.version),
        ]
        for part in limits.parts([*limits.singly(leaves), last]):
            yield structure.raised(world, part) if last[-1] in part else part
        return Explained()


class NetworkServe(Operation[Explained], frozen=True, kw_only=True):
    """Give an admin node its slice of the dynamic ranges of a network: a server of DHCP there offers these addresses alone."""

    noun = "network"
    verb = "serve"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("network",)

    network: str
    node: str

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        stored = network_of(world, self.network)
        if not record_of(node_of(world, self.node)).admin:
            raise Conflict(f"{self.node} is no admin node; first: nodepool-ocb node set {self.node} admin=true")
        admins = {name for name, view in world.nodes.items() if view.record is None or view.record.admin}
        yield from _written(world, self.network, stored, slices.served(self.network, stored.record, self.node, admins))
        return Explained()


class NetworkUnserve(Operation[Explained], frozen=True, kw_only=True):
    """Take the slice of the dynamic ranges from an admin node; the slices of other nodes stay as they are."""

    noun = "network"
    verb = "unserve"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("network",)

    network: str
    node: str

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        stored = network_of(world, self.network)
        yield from _written(world, self.network, stored, slices.unserved(stored.record, self.node))
        return Explained()


def _written(world: World, name: str, stored: Stored[Network], after: Network) -> Steps[None]:
    if after != stored.record:
        yield structure.raised(world, [Set(paths.network(name), after, stored.version)])


def _allocated(found: Mapping[str, FoundAddress]) -> dict[str, str]:
    """The addresses that are in no quarantine, with their nodes."""
    return {
        address: each.record.node if each.record is not None and each.record.node else "unreadable"
        for address, each in found.items()
        if each.record is None or each.record.node is not None
    }
