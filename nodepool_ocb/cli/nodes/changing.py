"""Fields of nodes that are changed: what every verb does that changes nodes which exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.kit.selecting import Nodes
from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.model.records import Change

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

Fields = Callable[[World, NodeView], Mapping[str, Any]]  # what liveness.changed is given of a node as it is


def change(chosen: Nodes, fields: Fields, dry_run: bool) -> None:
    """Change nodes, and print what was, or would be, changed; raises what ``fields`` and liveness.changed raise."""

    def decide(opened: Session, world: World) -> Sequence[Sequence[Change]]:
        now, me = opened.now(), session.me()

        def one(view: NodeView) -> list[Change]:
            return liveness.changed(world, view, now, me, **fields(world, view))

        return together.decided(world, chosen.of(opened, world), one)

    with session.session() as opened:
        session.report(session.change(opened, decide, dry_run), dry_run)
