"""``nodepool-ocb export``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output, selecting, session, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.engine import deployments
from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.names import deployment_of

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb)
@selecting.nodes_argument
@selecting.selector_option
@click.option("--deployment", shell_complete=completion.deployments, help="Only nodes of it, and of those below it.")
@click.option("--no-roles", is_flag=True, help="Without the definitions of roles: their barclamps are elsewhere.")
def command(fqdns: Sequence[str], selector: str | None, deployment: str | None, no_roles: bool) -> None:
    """Print the cluster as a site file, for `apply`: roles, deployments, nodes, what is bound, and what people set.

    Without names, -l or --deployment it is the whole cluster.

    Two exports of one state are the same, line for line. docs/site.md says what is in it and what is not.
    """
    from nodepool_ocb.site import exporting

    asked = selecting.Nodes(fqdns, selector) if fqdns or selector is not None else None
    with session.session() as opened:
        world = session.load(opened)
        views = _chosen(world, deployment, asked.of(opened, world) if asked else None)
        kept = _kept(opened, views)
    document = exporting.document(
        world, views, kept, whole=asked is None and deployment is None, catalogue=not no_roles
    )
    if output.chosen() == "json":
        terminal.document(document)
    elif output.chosen() == "name":
        for view in views:
            terminal.text(view.name)
    else:
        terminal.yaml_document(document)


def _chosen(world: World, deployment: str | None, asked: Collection[NodeView] | None) -> list[NodeView]:
    from nodepool_ocb.site import exporting

    views = exporting.chosen(world)
    if asked is not None:
        meant = {view.name for view in asked}
        views = [view for view in views if view.name in meant]
    if deployment is None:
        return views
    deployment_of(world, deployment)
    line = deployments.below(world, deployment)
    return [view for view in views if view.record is not None and view.record.deployment in line]


def _kept(opened: Session, views: list[NodeView]) -> dict[str, Json]:
    """What users gave to the noderoles of these; raises Invalid where that cannot be read."""
    from nodepool_ocb.site import exporting
    from nodepool_ocb.store.client import blobs

    folders = [paths.noderole(each.role, view.name) for view in views for each in exporting.noderoles(view)]
    found = blobs.read(opened, folders, ["user"])
    if found.unreadable:
        raise Invalid(list(found.unreadable.values()))
    return dict(found.blobs)
