"""``nodepool-ocb lease``: nodes of pools, taken, used and returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import completion, output, reporting, times
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.leases.run import run
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.operations.leases.leaking import LeaseLeaks, LeaseLeaksDelete
from nodepool_ocb.operations.leases.reading import LeaseList, LeaseShow
from nodepool_ocb.operations.leases.returning import LeaseDelete, LeaseHold, LeaseRelease, LeaseReturn
from nodepool_ocb.operations.leases.taking import LeaseTake
from nodepool_ocb.views.pools import LeasesTaken

LIST_COLUMNS: Final = (
    "name",
    "state",
    "labels",
    "provider",
    "pool",
    "since",
    "address",
    "request",
    "holder",
    "comment",
)
TAKEN_COLUMNS: Final = ("name", "labels", "address", "port", "user", "hostname", "until")


@click.group(cls=Noun)
def command() -> None:
    """Nodes of pools: take them, run a command on them, return them."""


command.add_command(run)

nodes_argument = click.argument("leases", metavar="NODE...", nargs=-1, required=True, shell_complete=completion.leases)


@command.command("list", operation=LeaseList)
@click.option("--label", "labels", multiple=True, shell_complete=completion.pool_labels, help="Nodes with this label.")
@click.option("--provider", shell_complete=completion.pool_providers)
@click.option("--request", shell_complete=completion.requests, help="Nodes of this request.")
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, PoolNodeState)], case_sensitive=False))
def list_(labels: Sequence[str], provider: str | None, request: str | None, states: Sequence[str]) -> None:
    """Every node of a pool, also those that are launched or deleted."""
    operation = LeaseList(labels=tuple(labels), provider=provider, request=request, states=tuple(states))
    output.things(perform(operation).answer, LIST_COLUMNS)


@command.command(operation=LeaseShow)
@click.argument("lease", metavar="NODE", shell_complete=completion.leases)
def show(lease: str) -> None:
    """One node of a pool: its record, and the holder of its lock."""
    document = perform(LeaseShow(lease=lease)).answer
    output.thing(document, document.row.name)


@command.command(operation=LeaseTake)
@click.argument("request", metavar="REQUEST", shell_complete=completion.requests)
@click.option(
    "--for",
    "seconds",
    type=times.duration,
    metavar="DURATION",
    default="1h",
    help="The length of the lease; after it, launchers delete the nodes. The default is 1h.",
)
@click.option("--comment", metavar="TEXT", help="A note on the nodes, after your name.")
@dry_run_option
def take(request: str, seconds: float, comment: str | None, dry_run: bool) -> None:
    """Take the nodes of a fulfilled request for a while, all or none. Return them with `lease return`.

    The nodes are in state `hold`, with your name as the comment. A command that ends holds no lock, and launchers delete a
    node that is `in-use` without one. Log in with a key that the nodes know. `lease run` makes a key for each lease.
    """
    performed = perform(LeaseTake(request=request, seconds=seconds, comment=comment), dry_run=dry_run)
    taken = performed.answer
    if taken.until is None:
        reporting.performed(performed)
        return
    output.thing(
        LeasesTaken(request=request, until=taken.until, leases=taken.leases),
        " ".join(row.name for row in taken.leases),
        output.table(taken.leases, TAKEN_COLUMNS),
    )


@command.command("return", operation=LeaseReturn)
@nodes_argument
@dry_run_option
def return_(leases: Sequence[str], dry_run: bool) -> None:
    """Return nodes after their use. A launcher deletes each machine, or cleans it if it is static."""
    reporting.performed(perform(LeaseReturn(leases=tuple(leases)), dry_run=dry_run))


@command.command(operation=LeaseHold)
@nodes_argument
@click.option("--comment", metavar="TEXT", help="The reason; it is noted on the nodes, after your name.")
@click.option(
    "--for",
    "seconds",
    type=times.duration,
    metavar="DURATION",
    help="The length of the hold, such as 90m or 1d; after it, launchers delete the nodes.",
)
@dry_run_option
def hold(leases: Sequence[str], comment: str | None, seconds: float | None, dry_run: bool) -> None:
    """Keep nodes, to look at them: they are neither handed out nor deleted until the hold ends.

    A node that a client uses is locked, and refused: its client returns it first.
    """
    reporting.performed(perform(LeaseHold(leases=tuple(leases), comment=comment, seconds=seconds), dry_run=dry_run))


@command.command(operation=LeaseRelease)
@nodes_argument
@dry_run_option
def release(leases: Sequence[str], dry_run: bool) -> None:
    """End the hold of nodes: they count as used, and are deleted or cleaned."""
    reporting.performed(perform(LeaseRelease(leases=tuple(leases)), dry_run=dry_run))


@command.command(operation=(LeaseLeaks, LeaseLeaksDelete))
@click.argument("provider", metavar="[PROVIDER]", required=False, shell_complete=completion.pool_providers)
@click.option("--delete", "external_id", metavar="EXTERNAL-ID", help="Delete the machine with this id at PROVIDER.")
@click.option("--cluster", help="The cluster that its stamp must name, by id; the default is this one.")
@yes_option
@dry_run_option
def leaks(provider: str | None, external_id: str | None, cluster: str | None, yes: bool, dry_run: bool) -> None:
    """Machines at providers that have no record: of this cluster, or of another one.

    This host asks the providers in the nodepool.yaml of its launcher. Launchers delete the leaks of this cluster. Those of other
    clusters stay until a person deletes them: --delete, with --cluster.
    """
    if external_id is None:
        rows = perform(LeaseLeaks(provider=provider)).answer
        output.things(rows, ("provider", "external_id", "hostname", "since", "whose", "cluster", "pool", "node"))
        return
    if provider is None:
        raise click.UsageError("--delete needs PROVIDER")
    operation = LeaseLeaksDelete(provider=provider, external_id=external_id, cluster=cluster)
    deleted = perform(operation, dry_run=dry_run, yes=yes).answer
    if dry_run:
        reporting.rows((deleted.row,), dry_run)
    for sentence in deleted.after:
        output.say(sentence)


@command.command(operation=LeaseDelete)
@nodes_argument
@yes_option
@dry_run_option
def delete(leases: Sequence[str], yes: bool, dry_run: bool) -> None:
    """Ask for the deletion of nodes with their machines; launchers carry it out. A locked node is refused."""
    reporting.performed(perform(LeaseDelete(leases=tuple(leases)), dry_run=dry_run, yes=yes))
