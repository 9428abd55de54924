"""``nodepool-ocb pool``: the pools of providers."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.pools.erasing import PoolErase
from nodepool_ocb.operations.pools.reading import PoolList, PoolShow


@click.group(cls=Noun)
def command() -> None:
    """Pools of providers: their launchers, labels and nodes."""


@command.command("list", operation=PoolList)
def list_() -> None:
    """Every pool that a launcher has registered, or that has nodes.

    REQUESTS is the number of requests that wait for a label of the pool.
    """
    rows = perform(PoolList()).answer
    output.things(rows, ("name", "state", "labels", "launchers", "nodes", "requests"))


@command.command(operation=PoolShow)
@click.argument("pool", metavar="PROVIDER/POOL", shell_complete=completion.pools)
def show(pool: str) -> None:
    """One pool with its launchers and its nodes."""
    document = perform(PoolShow(pool=pool)).answer
    tables = [output.fields(document, but=("members", "leases"))]
    if document.members:
        tables.append(
            output.table(document.members, ("name", "host", "state", "paused", "priority", "version", "native"))
        )
    if document.leases:
        tables.append(
            output.table(document.leases, ("name", "state", "labels", "since", "request", "address", "holder"))
        )
    output.thing(document, document.row.name, *tables)


@command.command(operation=PoolErase)
@click.argument("provider", metavar="PROVIDER", shell_complete=completion.pool_providers)
@yes_option
@dry_run_option
def erase(provider: str, yes: bool, dry_run: bool) -> None:
    """Delete the records of all nodes of a provider that is gone for good, without a request to it.

    The machines there stay, and are named: delete them there by hand. Refused while a running launcher has the provider. `image
    erase` deletes the records of its uploads.
    """
    reporting.performed(perform(PoolErase(provider=provider), dry_run=dry_run, yes=yes))
