"""``node delete``: nodes are taken away, with all that is bound to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, confirm, dry_run_option, yes_option
from nodepool_ocb.cli.kit.selecting import Nodes, nodes_argument, selector_option
from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Delete
from nodepool_ocb.operations.names import node_of

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb, writes=True)
@nodes_argument
@selector_option
@yes_option
@dry_run_option
def delete(fqdns: Sequence[str], selector: str | None, yes: bool, dry_run: bool) -> None:
    """Delete nodes and their noderoles; the machines themselves are left as they are."""
    chosen = Nodes(fqdns, selector)
    with connection.session() as opened:
        views = chosen.of(opened, connection.load(opened))
        deletion = _Deletion(chosen, views, asked=not (yes or dry_run))
        if views and not dry_run:
            deletion.confirm(views, yes)
        changes = connection.change(opened, deletion.decide, dry_run)
        connection.report(changes, dry_run)
        gone = {change.path for change in changes if isinstance(change, Delete)}
        for view in views:
            if paths.node(view.name) not in gone:
                output.say(f"{view.name} goes when the hooks of on_node_delete have run")


class _Deletion:
    """A deletion of nodes, that may take several attempts."""

    def __init__(self, chosen: Nodes, views: Collection[NodeView], *, asked: bool) -> None:
        """``asked``: a person agreed to what is there now, and to nothing else."""
        self._scope, self._asked = chosen.scope, asked
        self._names = dict.fromkeys(view.name for view in views)
        self._elsewhere = {name for view in views for name in _elsewhere(view, self._names)}
        self._begun: set[str] = set()

    def confirm(self, views: Collection[NodeView], yes: bool) -> None:
        also = ", ".join(sorted(self._elsewhere))
        below = f", and what is PROPOSED below them on other nodes ({also})" if also else ""
        if len(views) == 1:
            [view] = views
            what = f"node {view.name} with its noderoles and their history ({_bound(view)})"
        else:
            for view in () if yes else views:
                output.say(f"{view.name}: {_bound(view)}")
            what = (
                f"{len(views)} nodes ({', '.join(view.name for view in views)}) with their noderoles and their history"
            )
        confirm(f"delete {what}{below}", yes)

    def decide(self, opened: Session, world: World) -> Iterator[Sequence[Change]]:
        """All are judged before the first goes; then one after the other."""
        left = [name for name in self._names if name in world.nodes or not (self._scope or name in self._begun)]
        views = nodes.in_order([node_of(world, name) for name in left])
        for view in views:
            self._refuse_more(view)
            nodes.delete(world, view.name, self._names)
        for view in views:
            for transaction in transactions(opened, world, view.name):
                yield transaction
                self._begun.add(view.name)
                together.advance(world, transaction)

    def _refuse_more(self, view: NodeView) -> None:
        """Raises Conflict where something came to depend on a node after somebody agreed to its deletion."""
        if not self._asked or self._begun:
            return
        more = sorted(_elsewhere(view, self._names) - self._elsewhere)
        if more:
            raise Conflict(f"{', '.join(more)} came to depend on {view.name} meanwhile; look, and ask again")


def _bound(view: NodeView) -> str:
    return ", ".join(sorted(view.noderoles)) or "no noderoles"


def _elsewhere(view: NodeView, besides: Collection[str]) -> set[str]:
    """The noderoles of other nodes that go with it."""
    return {vertex.name for vertex in nodes.going(view, besides) if vertex.node is not view}


def transactions(opened: Session, world: World, fqdn: str) -> Iterator[Sequence[Change]]:
    """Those that delete a node, or ask for it; write each before taking the next."""
    from nodepool_ocb.store.subtree import removal_as_judged

    view = node_of(world, fqdn)
    asked = nodes.delete(world, fqdn)
    if asked:
        yield asked
        return
    elsewhere = [vertex for vertex in reversed(nodes.going(view)) if vertex.node is not view]
    places = [paths.noderole(vertex.role, vertex.node.name) for vertex in elsewhere]
    places.append(paths.node(fqdn))
    deletions = [each for place in places for each in removal_as_judged(opened, world, place)]
    yield from nodes.taking_away(world, fqdn, deletions)
