"""``node rename``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.nodes.renaming import NodeRename


@click.command(cls=Verb, operation=NodeRename)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("name")
@dry_run_option
def rename(fqdn: str, name: str, dry_run: bool) -> None:
    """Give a node another name, with all that is bound to it: nothing runs again for that.

    An address that is the old name becomes the new one. Refused while something works on the node, or while a rollout or a run
    of tasks is under way that may.
    """
    performed = perform(NodeRename(node=fqdn, name=name), dry_run=dry_run)
    if performed.rows and not dry_run:
        output.say(f"{fqdn} is {name} now; rollouts and logs of before name it as it was")
    reporting.performed(performed)
