"""``nodepool-ocb noderole causes``: the noderoles in ERROR by cause."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.operations.noderoles.causes import NoderoleCauses
from nodepool_ocb.views.causes import line


@click.command(cls=Verb, operation=NoderoleCauses)
@click.option("--deployment", shell_complete=completion.deployments)
@selector_option
def causes(deployment: str | None, selector: str | None) -> None:
    """The causes for which noderoles are in ERROR, the most frequent first.

    Noderoles with the same reason are one cause; NODE stands for the name or the address of each node. The column "before" is the
    newest entry of the journal before the first of them.
    """
    rows = perform(NoderoleCauses(deployment=deployment, selector=selector)).answer
    columns = ("cause", "noderoles", "nodes", "first", "example", "before")
    output.things(rows, columns, key="cause", shown=map(line, rows))
