"""``node list`` and ``node show``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import node_selector_option
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations.nodes.reading import NodeList, NodeShow


@click.command("list", cls=Verb, operation=NodeList)
@click.option("--deployment", shell_complete=completion.deployments)
@click.option("--tag", "tags", multiple=True, shell_complete=completion.tags, help="Only nodes with all of these tags.")
@click.option("--label", "labels", multiple=True, metavar="K=V", shell_complete=completion.labels)
@node_selector_option
def list_(deployment: str | None, tags: Sequence[str], labels: Sequence[str], selector: str | None) -> None:
    """Every node, with its worst noderole's state."""
    operation = NodeList(deployment=deployment, tags=tuple(tags), labels=assigning.labels(labels), selector=selector)
    columns = ("name", "deployment", "alive", "available", "held", "state", "noderoles", "tags", "since", "reason")
    output.things(perform(operation).answer, columns)


@click.command(cls=Verb, operation=NodeShow)
@click.argument("fqdn", shell_complete=completion.nodes)
def show(fqdn: str) -> None:
    """One node, and its noderoles."""
    node = perform(NodeShow(node=fqdn)).answer
    table = output.table(node.noderoles, ("noderole", "state", "since", "reason"))
    output.thing(node, fqdn, output.fields(node, but=("noderoles", "mark", "hold")), table)
