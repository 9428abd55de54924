"""``nodepool-ocb request``: requests for nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import completion, output, reporting, times
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, timeout_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.requests.options import wanted_options
from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.operations.requests.creating import RequestCreate
from nodepool_ocb.operations.requests.deleting import RequestDelete
from nodepool_ocb.operations.requests.reading import RequestList, RequestShow

LIST_COLUMNS: Final = ("name", "state", "labels", "since", "place", "launcher", "nodes", "requestor", "reason")
SHOWN: Final = ("pools", "launched", "node_types", "declined_by", "state_time", "created_time")


@click.group(cls=Noun)
def command() -> None:
    """Requests for nodes: create, list and delete them, and see why one waits."""


request_argument = click.argument("request", metavar="REQUEST", shell_complete=completion.requests)


@command.command("create", operation=RequestCreate)
@wanted_options
@click.option(
    "--expires",
    "seconds",
    type=times.duration,
    metavar="DURATION",
    default="1d",
    help="Delete the request after this time, such as 90m, unless its nodes are in use then. The default is 1d.",
)
@click.option("--wait", is_flag=True, help="Wait until the request is fulfilled, or has failed.")
@timeout_option
@dry_run_option
def create(
    labels: Sequence[str],
    count: int,
    priority: int,
    tenant: str | None,
    provider: str | None,
    seconds: float,
    wait: bool,
    timeout_seconds: float | None,
    dry_run: bool,
) -> None:
    """Ask for nodes of labels. The request stays until it expires, or is deleted; `lease take` takes its nodes.

    One pool serves the request, so that its nodes are at one provider. Several labels, or --count, ask for several nodes.
    """
    operation = RequestCreate(
        labels=tuple(labels), count=count, priority=priority, tenant=tenant, provider=provider, seconds=seconds
    )
    performed = perform(operation, dry_run=dry_run)
    asked = performed.answer
    if wait and asked.request is not None:
        from nodepool_ocb.cli.requests import waiting

        waiting.wait(asked.request, timeout_seconds)
        return
    reporting.rows((asked.row,), dry_run)


@command.command("list", operation=RequestList)
@click.option(
    "--label", "labels", multiple=True, shell_complete=completion.pool_labels, help="Requests for this label."
)
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, RequestState)], case_sensitive=False))
def list_(labels: Sequence[str], states: Sequence[str]) -> None:
    """Every request, in the order of service, with the reason why it waits.

    PLACE counts the requests that wait; the first has 1.
    """
    rows = perform(RequestList(labels=tuple(labels), states=tuple(states))).answer
    output.things(rows, LIST_COLUMNS)


@command.command(operation=RequestShow)
@request_argument
def show(request: str) -> None:
    """One request: its record, its place, why it waits, the verdict of each pool, and the nodes that are allocated to it."""
    document = perform(RequestShow(request=request)).answer
    tables = [output.fields(document, but=SHOWN)]
    if document.pools:
        tables.append(output.table(document.pools, ("name", "code", "reason")))
    if document.launched:
        tables.append(output.table(document.launched, ("name", "state", "labels", "provider", "since", "address")))
    output.thing(document, document.row.name, *tables)


@command.command(operation=RequestDelete)
@click.argument("requests", metavar="REQUEST...", nargs=-1, required=True, shell_complete=completion.requests)
@yes_option
@dry_run_option
def delete(requests: Sequence[str], yes: bool, dry_run: bool) -> None:
    """Delete requests. Nodes that were allocated to them and never used serve others; nodes in use stay with their holder."""
    reporting.performed(perform(RequestDelete(requests=tuple(requests)), dry_run=dry_run, yes=yes))
