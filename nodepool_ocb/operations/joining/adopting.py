"""``node adopt`` and ``node hint``: a waiting or future machine for a node that a person names."""

from __future__ import annotations

from nodepool_ocb.engine import liveness, nodes
from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.joining import AdoptionRule
from nodepool_ocb.model.ranges import Name
from nodepool_ocb.model.records import Node
from nodepool_ocb.operations.joining import making
from nodepool_ocb.operations.joining.finding import registration_of
from nodepool_ocb.operations.names import deployment_of, record_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.nodes.domain import admin_domain
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import ReadRegistrations
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.addressing import macs
from nodepool_ocb.provisioning.addressing.placing import MAC_HINT
from nodepool_ocb.provisioning.joining import registrations


class NodeAdopt(Operation[Explained], frozen=True, kw_only=True):
    """Make a waiting machine a node: a new one, or one that exists. Nothing is installed.

    A node that exists gets the machine's MACs, address and host keys; the host keys before are no longer pinned.
    """

    noun = "node"
    verb = "adopt"
    right = Right.OPERATOR
    reads = (*making.READS, ReadRegistrations)
    writes = making.WRITES

    mac: str
    name: str
    deployment: Name = "system"  # of a new node
    network: str | None = None  # in which a new node gets an address
    roles: tuple[Name, ...] = ()  # of a new node, PROPOSED

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        found = yield from ReadRegistrations()
        mac, stored = registration_of(found, self.mac)
        registrations.refuse_refused(mac, stored.record)
        if stored.record.node not in (None, self.name) and stored.record.node in world.nodes:
            raise Conflict(
                f"machine {mac} is node {stored.record.node}; see: nodepool-ocb node show {stored.record.node}"
            )
        view = world.nodes.get(self.name)
        if view is not None and view.record is not None:
            yield (yield from making.tied(world, situation, mac, stored, view))
            return Explained()
        rule = AdoptionRule(name=self.name, deployment=self.deployment, network=self.network, roles=self.roles)
        yield (yield from making.made(world, situation, mac, stored, (self.name, rule)))
        return Explained()


class NodeHint(Operation[Explained], frozen=True, kw_only=True):
    """Plan a node for the machine with this MAC: it becomes this node when it registers, without a rule.

    A node that does not exist is created. Of a node that exists, the hint admin-mac is set.
    """

    noun = "node"
    verb = "hint"
    right = Right.OPERATOR
    reads = (ReadWorld, *placement.READS)
    writes = ("node", "noderole", "deployment role", *placement.WRITES)

    mac: str
    name: str
    deployment: Name = "system"  # of a new node

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        [mac] = macs.checked([self.mac])
        view = world.nodes.get(self.name)
        if view is None or view.record is None:
            yield from self._planned(world, situation, mac)
            return Explained()
        before = record_of(view)
        if before.hints.get(MAC_HINT) == mac:
            return Explained()
        if before.alive or before.host_keys:
            raise Invalid(
                f"node {self.name} runs on a known machine; for another machine: nodepool-ocb node adopt {mac} {self.name}"
            )
        fields = {"hints": {**before.hints, MAC_HINT: mac}}
        placed = yield from placement.changed(world, situation, view, fields)
        changes = liveness.changed(world, view, situation.now, situation.by, **{**fields, **placed.fields})
        yield [*placed.changes, *changes]
        return Explained(notes=tuple(placed.notes))

    def _planned(self, world: World, situation: Situation, mac: str) -> Steps[None]:
        deployment_of(world, self.deployment)
        node = Node(deployment=self.deployment, hints={MAC_HINT: mac}, available=situation.settings.nodes.available)
        nodes.refuse_taken(world, self.name)
        placed = yield from placement.created(world, situation, self.name, node, None)
        plan = nodes.create(
            world,
            self.name,
            placed.node,
            admin_domain=admin_domain(world, situation.settings),
            now=situation.now,
            jigs=active_jigs(world),
            by=situation.by,
        )
        yield [*placed.changes, *plan.changes]
