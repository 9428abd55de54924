"""``node delete``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.operations.nodes.deleting import NodeDelete


@click.command(cls=Verb, operation=NodeDelete)
@nodes_argument
@node_selector_option
@yes_option
@dry_run_option
def delete(fqdns: Sequence[str], selector: str | None, yes: bool, dry_run: bool) -> None:
    """Delete nodes and their noderoles; the machines themselves are left as they are."""
    operation = NodeDelete(nodes=nodes_given(fqdns, selector), selector=selector)
    performed = perform(operation, dry_run=dry_run, yes=yes)
    reporting.performed(performed)
    for name in performed.answer.asked:
        output.say(f"{name} goes when the hooks of on_node_delete have run")
