"""``node delete``: nodes are taken away, with all that is bound to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.kinds import OF_NODE
from nodepool_ocb.model.records import Change, Delete
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.names import node_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreed, Agreement
from nodepool_ocb.operations.reads.world import ReadDeletions, ReadWorld


class NodesDeleted(Explained, frozen=True, kw_only=True):
    """The answer of a deletion."""

    asked: tuple[str, ...] = ()  # nodes that go after their hooks


class NodeDelete(Operation[NodesDeleted], frozen=True, kw_only=True):
    """Delete nodes and their noderoles; the machines stay as they are."""

    noun = "node"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes, Agreement, ReadDeletions)
    writes = (
        "node",
        *OF_NODE,
        "noderole",
        "attributes",
        *placement.WRITES,
    )

    nodes: tuple[str, ...] = ()
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[NodesDeleted]:
        """All are judged before the first goes; then one after the other."""
        world = yield from ReadWorld()
        begun = _begun(situation.written)
        names = self.nodes
        if self.selector is not None:
            names = yield from selection.ResolveNodes(self.selector)
        left = [name for name in dict.fromkeys(names) if name in world.nodes or not (self.selector or name in begun)]
        chosen = selection.nodes_again(world, left, resolved=self.selector is not None)
        agreed: Agreed | None = None
        if chosen and not situation.call.dry_run:
            agreed = yield from agreement(chosen)
        views = nodes.in_order(chosen)
        for view in views:
            if agreed is not None and agreed.asked and not begun:
                _refuse_more(view, names, agreed.covers)
            nodes.delete(world, view.name, names)
        gone = {change.path for change in situation.written if isinstance(change, Delete)}
        for view in views:
            written = yield from removal(world, view.name)
            gone |= {change.path for change in written if isinstance(change, Delete)}
        return NodesDeleted(asked=tuple(name for name in dict.fromkeys(names) if paths.node(name) not in gone))


def removal(world: World, fqdn: str) -> Steps[list[Change]]:
    """The transactions that delete a node, or ask its hooks for that; gives their changes. The world follows each of them."""
    view = node_of(world, fqdn)
    asked = nodes.delete(world, fqdn)
    if asked:
        yield asked
        advance(world, asked)
        return asked
    elsewhere = [vertex for vertex in reversed(nodes.going(view)) if vertex.node is not view]
    places = [paths.noderole(vertex.role, vertex.node.name) for vertex in elsewhere]
    deletions: list[Change] = []
    for place in [*places, paths.node(fqdn)]:
        found = yield from ReadDeletions(place)
        deletions += found
    written: list[Change] = []
    for transaction in nodes.taking_away(world, fqdn, deletions):
        yield transaction
        advance(world, transaction)
        written += transaction
    return written


def agreement(views: Sequence[NodeView]) -> Steps[Agreed]:
    """Ask for agreement to these deletions; it covers the noderoles of other nodes that go with them."""
    names = [view.name for view in views]
    elsewhere = {name for view in views for name in _elsewhere(view, names)}
    also = ", ".join(sorted(elsewhere))
    below = f", and the PROPOSED noderoles below them on other nodes ({also})" if also else ""
    details: tuple[str, ...] = ()
    if len(views) == 1:
        [view] = views
        what = f"node {view.name} with its noderoles and their history ({_bound(view)})"
    else:
        details = tuple(f"{view.name}: {_bound(view)}" for view in views)
        what = f"{len(views)} nodes ({', '.join(names)}) with their noderoles and their history"
    agreed = yield from Agreement(f"delete {what}{below}", details, frozenset(elsewhere))
    return agreed


def _refuse_more(view: NodeView, names: Collection[str], covered: frozenset[str]) -> None:
    """Raises Conflict if a noderole came to depend on a node after the agreement to its deletion."""
    more = sorted(_elsewhere(view, names) - covered)
    if more:
        raise Conflict(
            f"{', '.join(more)} came to depend on {view.name} meanwhile; look, and ask again;"
            f" see: nodepool-ocb node show {view.name}"
        )


def _begun(written: Iterable[Change]) -> set[str]:
    """The nodes with changes by an earlier attempt of this call."""
    return {change.path.split("/")[3] for change in written if change.path.startswith(f"{paths.NODES}/")}


def _bound(view: NodeView) -> str:
    return ", ".join(sorted(view.noderoles)) or "no noderoles"


def _elsewhere(view: NodeView, besides: Collection[str]) -> set[str]:
    """The noderoles of other nodes that go with it."""
    return {vertex.name for vertex in nodes.going(view, besides) if vertex.node is not view}
