"""``nodepool-ocb node import``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.site.applying import NodeImport

if TYPE_CHECKING:
    from nodepool_ocb.operations.site.documents import DesiredState


@click.command("import", cls=Verb, operation=NodeImport)
@click.argument("file", type=click.Path(path_type=str), metavar="FILE|-")
@click.option(
    "--deployment", shell_complete=completion.deployments, help="The deployment of nodes without one in the file."
)
@click.option("--tag", "tags", multiple=True, help="A tag of nodes that have no tags of their own in a table.")
@click.option("--domain", metavar="DOMAIN", help="The domain to append to names of Ansible's inventory that have none.")
@click.option("--update", is_flag=True, help="Change nodes that exist and are otherwise.")
@dry_run_option
def import_(
    file: str, deployment: str | None, tags: tuple[str, ...], domain: str | None, update: bool, dry_run: bool
) -> None:
    """Create the nodes of a CSV table, or of an inventory of Ansible (`ansible-inventory --list`).

    The first line of a table names its columns: fqdn, address, tags, labels, label:NAME, rack, user, deployment, ... Nodes that
    are as the file says stay; one that is otherwise is refused without --update.
    """
    defaults: dict[str, Any] = {} if deployment is None else {"deployment": deployment}
    wanted = _wanted(file, domain, {**defaults, "tags": tags} if tags else defaults)
    performed = perform(NodeImport(wanted=wanted, update=update), dry_run=dry_run)
    reporting.performed(performed)
    for sentence in performed.answer.after:
        output.say(sentence)


def _wanted(file: str, domain: str | None, defaults: Mapping[str, Any]) -> DesiredState:
    """The nodes of a file, or of stdin; raises NotFound, or Invalid."""
    from nodepool_ocb.cli.site import sources  # here, since yaml takes long to import
    from nodepool_ocb.operations.site import documents

    if file != sources.STDIN and not Path(file).exists():
        raise NotFound(f"{file} does not exist; check the path")
    name = "stdin" if file == sources.STDIN else file
    return documents.nodes(sources.text(file), name, domain, defaults)
