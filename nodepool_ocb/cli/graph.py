"""``nodepool-ocb graph``: which noderole waits for which, drawn from parents to children."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.names import deployment_of, noderole_of
from nodepool_ocb.cli.kit.options import Verb, asked
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.views import graph
from nodepool_ocb.views.view import plain


@click.command(cls=Verb)
@click.option("--deployment", shell_complete=completion.deployments, help="Only what belongs to this deployment.")
@click.option(
    "--around", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only what is above or below it."
)
@click.option("--format", "form", type=click.Choice(["dot", "mermaid", "json"]), help="The default is dot.")
def command(deployment: str | None, around: str | None, form: str | None) -> None:
    """Draw which noderole waits for which."""
    world = session.world()
    vertices = _chosen(world, deployment, around)
    if form in ("dot", "mermaid") and asked("output") not in (None, "table"):
        raise click.UsageError(f"--format {form} is text for people; take --format json, or leave -o away")
    if form == "json" and asked("output") is None:
        terminal.document(plain(graph.document(vertices)))
    else:
        draw = graph.mermaid if form == "mermaid" else graph.dot
        output.text(graph.document(vertices), draw(vertices))


def _chosen(world: World, deployment: str | None, around: str | None) -> list[Vertex]:
    chosen = set(graph.around(noderole_of(world, around)) if around else world.vertices())
    if deployment is not None:
        deployment_of(world, deployment)
        chosen = {vertex for vertex in chosen if vertex.record.deployment == deployment}
    return sorted(chosen, key=lambda vertex: vertex.name)
