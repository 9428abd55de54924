"""Fields of a node that are changed: what every verb does that changes one which exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.kit.names import node_of
from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.model.records import Change

Fields = Callable[[World, NodeView], Mapping[str, Any]]  # what liveness.changed is given of a node as it is


def change(fqdn: str, fields: Fields, dry_run: bool) -> None:
    """Change a node, and print what was, or would be, changed; raises what ``fields`` and liveness.changed raise."""

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        view = node_of(world, fqdn)
        changes = liveness.changed(world, view, opened.now(), session.me(), **fields(world, view))
        if changes:
            yield changes

    with session.session() as opened:
        session.report(session.change(opened, decide, dry_run), dry_run)
