"""Verbs that change fields of nodes: set, move, available, unavailable, alive, dead, release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta
from msgspec.structs import replace

from nodepool_ocb.engine import installing, liveness
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.model.records import Change, Set
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import deployment_of, record_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.operation import Explained, Lookup, Near, Operation, Right, Situation, Steps, near_nodes
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import bootenvs
from nodepool_ocb.provisioning.addressing import leases

BootId = Annotated[str, Meta(pattern=r"^[0-9a-f-]{1,64}\Z")]  # as Linux has it

#: The kinds of changes of a verb that may end a run: the change of the run's record is named as one of attributes.
ENDING_WRITES: Final = ("node", "noderole", "attributes")


class NodeChange(Operation[Explained], frozen=True, kw_only=True):
    """The base of these verbs: ``fields`` gives the fields of one node that change."""

    noun = "node"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (ReadWorld, selection.ResolveNodes)
    writes: ClassVar[tuple[str, ...]] = ("node", "noderole")

    nodes: tuple[str, ...] = ()
    selector: str | None = None

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:
        """The arguments of ``liveness.changed``."""
        raise NotImplementedError

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Raises the errors of ``fields`` and of ``liveness.changed``."""
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        yield from self.agreed(chosen, situation)
        notes = tuple(note for view in chosen for note in self.notes(view))

        def one(view: NodeView) -> list[Change]:
            return liveness.changed(world, view, situation.now, situation.by, **self.fields(world, view))

        yield from together.decided(world, chosen, one)
        return Explained(notes=notes)

    def notes(self, view: NodeView) -> Iterator[str]:  # noqa: ARG002
        """The parts of the change of one node that have no effect."""
        yield from ()

    def agreed(self, chosen: list[NodeView], situation: Situation) -> Steps[None]:
        """Ask for agreement, if the verb needs one."""
        del chosen, situation
        yield from ()


class NodeSet(NodeChange, frozen=True, kw_only=True):
    """Set fields of nodes."""

    verb = "set"
    reads = (*NodeChange.reads, *placement.READS)
    writes = (*ENDING_WRITES, *placement.WRITES)

    assignments: tuple[str, ...]  # KEY=VALUE, as ``assignments.node_fields`` reads them

    @property
    def near(self) -> Near | None:
        return near_nodes(self.nodes, self.selector)

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Of a hint or a MAC that a machine owns, the records of its owner change, too."""
        keys = [key for key, _ in assigning.pairs(self.assignments)]
        if placement.KEYS.isdisjoint(keys):
            return (yield from NodeChange.decide(self, situation))
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        placement.refuse_many(len(chosen), keys)
        notes: list[str] = []
        for view in chosen:
            fields = self.fields(world, view)
            placed = yield from placement.changed(world, situation, view, fields)
            fields = {**fields, **placed.fields}
            changes = liveness.changed(world, view, situation.now, situation.by, **fields)
            if changes:
                yield [*placed.changes, *changes]
            notes += placed.notes
        return Explained(notes=tuple(notes))

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:
        found = assigning.node_fields(record_of(view), self.assignments)
        if "bootenv" in found:
            bootenvs.refuse_unknown(world, found["bootenv"])
        return found


class NodeMove(NodeChange, frozen=True, kw_only=True):
    """Move nodes to another deployment; their noderoles stay in theirs."""

    verb = "move"

    deployment: str

    @property
    def near(self) -> Near | None:
        return near_nodes(self.nodes, self.selector)

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:  # noqa: ARG002
        deployment_of(world, self.deployment)
        return {"deployment": self.deployment}


class NodeAvailable(NodeChange, frozen=True, kw_only=True):
    """Let annealers work on nodes."""

    verb = "available"

    @property
    def near(self) -> Near | None:
        return near_nodes(self.nodes, self.selector)

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:  # noqa: ARG002
        return {"available": True}


class NodeUnavailable(NodeChange, frozen=True, kw_only=True):
    """Keep annealers away from nodes; their noderoles stay as they are."""

    verb = "unavailable"

    @property
    def near(self) -> Near | None:
        return near_nodes(self.nodes, self.selector)

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:  # noqa: ARG002
        return {"available": False}


class NodeRelease(NodeChange, frozen=True, kw_only=True):
    """Let annealers work again on nodes that were held, and probe them."""

    verb = "release"

    @property
    def near(self) -> Near | None:
        return near_nodes(self.nodes, self.selector)

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:  # noqa: ARG002
        return {"hold": None}


class NodeAlive(NodeChange, frozen=True, kw_only=True):
    """Lift marks of nodes: they are alive, and probed from now on."""

    verb = "alive"
    writes = (*NodeChange.writes, "inventory")

    as_machine: bool = False  # the machine says so itself: a person's mark stays
    boot_id: BootId | None = None  # of its kernel; kept with the facts of the machine, if it has an inventory

    def decide(self, situation: Situation) -> Steps[Explained]:
        answer = yield from NodeChange.decide(self, situation)
        if self.as_machine and len(self.nodes) == 1:
            yield from self._settled(situation)
        if self.boot_id is not None and len(self.nodes) == 1 and not situation.call.dry_run:
            world = yield from ReadWorld()
            known = world.of(Inventory).get(self.nodes[0])
            if known is not None and known.record.facts.boot_id != self.boot_id:
                facts = replace(known.record.facts, boot_id=self.boot_id)
                yield [Set(paths.inventory(self.nodes[0]), replace(known.record, facts=facts), known.version)]
        return answer

    def _settled(self, situation: Situation) -> Steps[None]:
        """The machine speaks from its address in a network: the leases that it had there before are no addresses of it."""
        world = yield from ReadWorld()
        view = world.nodes[self.nodes[0]]
        record = record_of(view)
        if situation.call.host in {each for own in record.networks.values() for each in own}:
            addresses = leases.lasting(world, record)
            if addresses != record.addresses:
                yield liveness.changed(world, view, situation.now, situation.by, addresses=addresses)

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:  # noqa: ARG002
        return {"marker": Marker.MACHINE if self.as_machine else Marker.PERSON, "alive": True}


class NodeDead(NodeChange, frozen=True, kw_only=True):
    """Mark nodes as not alive: their noderoles are set back. More than one node needs the caller's agreement."""

    verb = "dead"
    reads = (*NodeChange.reads, Agreement)
    writes = ENDING_WRITES

    reason: str | None = None  # of the mark
    until: float | None = None  # seconds since the epoch
    hold_seconds: float | None = None
    as_machine: bool = False  # the machine says so itself: a person's mark stays

    def fields(self, world: World, view: NodeView) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "marker": Marker.MACHINE if self.as_machine else Marker.PERSON,
            "alive": False,
            "reason": self.reason,
            "until": self.until,
            "hold_seconds": self.hold_seconds,
        }

    def notes(self, view: NodeView) -> Iterator[str]:
        if (found := installing.under_way(view)) is not None:
            name = found.record.noderole
            yield f"{name} goes on, for its machine may be away meanwhile; to end it: nodepool-ocb noderole cancel {name}"

    def agreed(self, chosen: list[NodeView], situation: Situation) -> Steps[None]:
        if len(chosen) > 1 and not situation.call.dry_run:
            names = ", ".join(view.name for view in chosen)
            yield from Agreement(f"mark {len(chosen)} nodes as not alive, and set their noderoles back: {names}")
