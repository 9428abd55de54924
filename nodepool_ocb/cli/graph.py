"""``nodepool-ocb graph``: which noderole waits for which, drawn from parents to children."""

from __future__ import annotations

from pathlib import Path

import click

from nodepool_ocb.cli.kit import completion, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.selecting import noderoles_meant, selector_option
from nodepool_ocb.cli.pictures import drawings
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.operations.names import deployment_of, noderole_of
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.graphs import noderoles as graph


@click.command(cls=Verb)
@click.option("--deployment", shell_complete=completion.deployments, help="Only what belongs to this deployment.")
@click.option(
    "--around", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only what is above or below it."
)
@selector_option
@drawings.options
def command(
    deployment: str | None, around: str | None, selector: str | None, form: str | None, file: Path | None
) -> None:
    """Draw which noderole waits for which.

    In a picture (--format svg) of more than 300 noderoles a box is a role, and says how many of its noderoles are in which
    state; with --around it is always a noderole.
    """
    drawings.checked(form, file)
    with session.session() as opened:
        world = session.load(opened)
        meant = noderoles_meant(opened, world, selector)
    vertices = [each for each in _chosen(world, deployment, around) if meant is None or each.name in meant]
    instead = "noderoles: a box is a role; with --around it is a noderole"
    whole = drawings.whole(form, len(vertices), around is not None, instead)
    texts = {
        "dot": lambda: graph.dot(vertices),
        "svg": lambda: graphviz.dot(graph.NAME, (graph.picture if whole else graph.collapsed)(vertices)),
        "mermaid": lambda: graph.mermaid(vertices),
    }
    drawings.show(graph.document(vertices), texts, form, file)


def _chosen(world: World, deployment: str | None, around: str | None) -> list[Vertex]:
    chosen = set(graph.around(noderole_of(world, around)) if around else world.vertices())
    if deployment is not None:
        deployment_of(world, deployment)
        chosen = {vertex for vertex in chosen if vertex.record.deployment == deployment}
    return sorted(chosen, key=lambda vertex: vertex.name)
