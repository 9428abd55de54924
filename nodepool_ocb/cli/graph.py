"""``nodepool-ocb graph``: which noderole waits for which, drawn from parents to children."""

from __future__ import annotations

from pathlib import Path

import click

from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.cli.pictures import drawings
from nodepool_ocb.operations.records.graph import GraphDraw
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.graphs import noderoles as graph


@click.command(cls=Verb, operation=GraphDraw)
@click.option("--deployment", shell_complete=completion.deployments, help="Only noderoles of this deployment.")
@click.option(
    "--around", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only noderoles above or below it."
)
@selector_option
@drawings.options
def command(
    deployment: str | None, around: str | None, selector: str | None, form: str | None, file: Path | None
) -> None:
    """Draw the dependencies between noderoles.

    In a picture (--format svg) of more than 300 noderoles a box is a role, with the number of its noderoles in each state.
    With --around a box is always a noderole.
    """
    drawings.checked(form, file)
    drawn = perform(GraphDraw(deployment=deployment, around=around, selector=selector)).answer
    instead = "noderoles: a box is a role; with --around it is a noderole"
    whole = drawings.whole(form, len(drawn.nodes), around is not None, instead)
    texts = {
        "dot": lambda: graph.dot(drawn),
        "svg": lambda: graphviz.dot(graph.NAME, (graph.picture if whole else graph.collapsed)(drawn)),
        "mermaid": lambda: graph.mermaid(drawn),
    }
    drawings.show(drawn, texts, form, file)
