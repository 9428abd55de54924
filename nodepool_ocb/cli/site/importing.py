"""``nodepool-ocb node import``."""

from __future__ import annotations

from typing import Any

import click

from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.site.wanted import Wanted


@click.command("import", cls=Verb, writes=True)
@click.argument("file", type=click.Path(path_type=str), metavar="FILE|-")
@click.option("--deployment", shell_complete=completion.deployments, help="Of nodes that have no other in the file.")
@click.option("--tag", "tags", multiple=True, help="Of nodes that have no tags of their own in a table.")
@click.option("--domain", metavar="DOMAIN", help="Behind Ansible's names that have none.")
@click.option("--update", is_flag=True, help="Change nodes that exist and are otherwise.")
@dry_run_option
def import_(
    file: str, deployment: str | None, tags: tuple[str, ...], domain: str | None, update: bool, dry_run: bool
) -> None:
    """Create the nodes of a CSV table, or of an inventory of Ansible (`ansible-inventory --list`).

    The first line of a table names its columns: fqdn, address, tags, labels, label:NAME, rack, user, deployment, ... Nodes that
    are as the file says stay; one that is otherwise is refused without --update.
    """
    from nodepool_ocb.cli.site.carrying import Carrying

    defaults: dict[str, Any] = {} if deployment is None else {"deployment": deployment}
    wanted = _read(file, domain, {**defaults, "tags": tags} if tags else defaults)

    def judge(world: World, wanted: Wanted) -> None:
        if not update:
            refuse_others(world, wanted)

    Carrying(wanted, dry_run=dry_run).carry(judge)


def _read(file: str, domain: str | None, defaults: dict[str, Any]) -> Wanted:
    """By what it looks like: an inventory is a JSON object."""
    from pathlib import Path

    from nodepool_ocb.cli.site import sources
    from nodepool_ocb.documents import document as documents
    from nodepool_ocb.site import ansible, reading, spreadsheet

    if file != sources.STDIN and not Path(file).exists():
        raise NotFound(f"{file} does not exist")
    text, name = sources.text(file), "stdin" if file == sources.STDIN else file
    if not text.lstrip().startswith("{"):
        return spreadsheet.read(text, name, defaults)
    found = documents.load_all(text, name, most=reading.MOST)
    return ansible.read(found[0], domain, defaults)


def refuse_others(world: World, wanted: Wanted) -> None:
    """Raises Conflict where a node exists and is otherwise."""
    problems = []
    for fqdn, each in wanted.nodes.items():
        view = world.nodes.get(fqdn)
        record = view.record if view is not None else None
        other = [name for name, value in each.fields.items() if record is not None and getattr(record, name) != value]
        if other:
            problems.append(each.place.fault(f"exists already, with other {', '.join(other)}; --update changes it"))
    if problems:
        raise Conflict("\n".join(problems))
