"""``node reinstall``: install machines again, and run again all that follows from that."""

from __future__ import annotations

from nodepool_ocb.engine import commands, inputs, installing
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.operation import AwaitedNoderoles, Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import orders


class Reinstalled(Explained, frozen=True, kw_only=True):
    """The answer; ``nodes``: those that are installed again."""

    nodes: tuple[str, ...] = ()


class NodeReinstall(Operation[Reinstalled], frozen=True, kw_only=True):
    """Install machines again. The data of their chosen disks is lost; all other noderoles of the nodes run again after that.

    Refused for a node without ``allow_install``, and without ``force`` if a rollout under way reserves one of the noderoles.
    """

    noun = "node"
    verb = "reinstall"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes, ReadBlobs, Agreement, *reservations.READS)
    writes = ("noderole",)

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Reinstalled]:
        world = yield from ReadWorld()
        views = yield from selection.nodes(world, self.nodes, self.selector)
        names = tuple(view.name for view in views)
        chosen = [_installing(view) for view in views]
        losses: list[str] = []
        for vertex in chosen:
            loss = yield from _loss(world, vertex)
            losses.append(loss)
        if chosen and not situation.call.dry_run:
            yield from Agreement(f"erase disks of {', '.join(names)}", tuple(losses), frozenset(names))
        moved = together.decided(world, chosen, lambda each: commands.redeploy(each, situation.now, situation.by))
        yield from reservations.guarded(world, chosen, moved, self.force)
        return Reinstalled(explanations=tuple(losses), nodes=names)

    def awaited(self, answer: Reinstalled) -> AwaitedNoderoles:
        """The noderoles of the nodes."""
        return AwaitedNoderoles(nodes=answer.nodes, resolved=self.selector is not None)


def _installing(view: NodeView) -> Vertex:
    """The noderole that installs the machine; raises Conflict without one, and without leave."""
    roles = view.world.roles
    found = [
        vertex
        for vertex in view.noderoles.values()
        if vertex.role in roles and roles[vertex.role].record.jig == installing.JIG
    ]
    if len(found) != 1:
        named = ", ".join(sorted(vertex.name for vertex in found)) or "none"
        raise Conflict(f"node {view.name} must have one noderole that installs it, and has {named}; bind or unbind one")
    if view.record is None or not view.record.allow_install:
        raise Conflict(
            f"allow_install of node {view.name} is not set, so its disks may not be erased; first:"
            f" nodepool-ocb node set {view.name} allow_install=true"
        )
    if found[0].record.state is State.PROPOSED:
        raise Conflict(f"{found[0].name} is PROPOSED; first: nodepool-ocb noderole commit {found[0].name}")
    return found[0]


def _loss(world: World, vertex: Vertex) -> Steps[str]:
    """The disk that loses its data, and the image, in one sentence."""
    sources = inputs.sources(world, vertex, world.role_of(vertex))
    read = yield from ReadBlobs(tuple(sources.blobs))
    name = vertex.node.name
    try:
        wish = orders.wish(inputs.visible(inputs.layers(sources, dict(read))))
    except Invalid as wrong:
        raise Conflict(f"{vertex.name} cannot be run: {wrong}") from None
    wiped = "".join(f", and so does {each.words}" for each in wish.wipe)
    last = installing.stored(vertex.node)
    before = f"; the last installation used {last.record.disk}" if last is not None else ""
    return (
        f"{name}: {wish.disk.words} loses its data{wiped}; it receives the newest build of image {wish.image}{before}"
    )
