"""``node reinstall``: install machines again, and run again all that follows from that."""

from __future__ import annotations

from nodepool_ocb.engine import reinstalling
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import InstallRequest, State, WipeMethod
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.commits.losing import losses_of
from nodepool_ocb.operations.operation import AwaitedNoderoles, Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.operations.reads.world import ReadWorld


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
    writes = ("node", "noderole")

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    image: str | None = None  # in place of the image of the role
    wipe: WipeMethod | None = None  # all fixed disks lose their data before, in this way
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Reinstalled]:
        world = yield from ReadWorld()
        views = yield from selection.nodes(world, self.nodes, self.selector)
        names = tuple(view.name for view in views)
        chosen = [_installing(view) for view in views]
        request = self._request
        losses = yield from losses_of(world, chosen)
        lost = tuple(loss(request) for loss in losses.values())
        if chosen and not situation.call.dry_run:
            yield from Agreement(f"erase disks of {', '.join(names)}", lost, frozenset(names))
        moved = together.decided(
            world, views, lambda view: reinstalling.requested(view, request, situation.now, situation.by)
        )
        yield from reservations.guarded(world, chosen, moved, self.force)
        return Reinstalled(explanations=lost, nodes=names)

    @property
    def _request(self) -> InstallRequest | None:
        """None without a wish: then the attributes of the role count."""
        given = InstallRequest(image=self.image, wipe=self.wipe)
        return given if given != InstallRequest() else None

    def awaited(self, answer: Reinstalled) -> AwaitedNoderoles:
        """The noderoles of the nodes."""
        return AwaitedNoderoles(nodes=answer.nodes, resolved=self.selector is not None)


def _installing(view: NodeView) -> Vertex:
    """The noderole that installs the machine; raises Conflict without one, without leave, and for one that is PROPOSED."""
    vertex = reinstalling.installer(view)
    if vertex.record.state is State.PROPOSED:
        raise Conflict(f"{vertex.name} is PROPOSED; first: nodepool-ocb noderole commit {vertex.name}")
    return vertex
