"""Marks of a person that a node is alive or not: ``node alive`` and ``node dead``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import reporting, times
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import node_selector_option, nodes_argument, nodes_given
from nodepool_ocb.operations.nodes.changing import NodeAlive, NodeDead

as_machine_option = click.option(
    "--as-machine", is_flag=True, help="The machine says so itself, as it starts or stops: a person's mark stays."
)


@click.command(cls=Verb, operation=NodeDead)
@nodes_argument
@node_selector_option
@click.option("--reason", help="Why; `node show` and `noderole explain` have it.")
@click.option("--until", type=times.moment, metavar="TIME", help="As 2026-01-31T18:00, or with Z behind it for UTC.")
@click.option("--for", "hold_seconds", type=times.duration, metavar="DURATION", help="As 90m, 2h30m or 1d.")
@as_machine_option
@yes_option
@dry_run_option
def dead(
    fqdns: Sequence[str],
    selector: str | None,
    reason: str | None,
    until: float | None,
    hold_seconds: float | None,
    as_machine: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Mark nodes as not alive: their noderoles are set back, and they are not probed before that time or `node alive`.

    More than one are listed, and asked about. A machine's own mark ends after an hour, unless it says otherwise.
    """
    if until is not None and hold_seconds is not None:
        raise click.UsageError("--until and --for contradict each other; give one of them")
    operation = NodeDead(
        nodes=nodes_given(fqdns, selector),
        selector=selector,
        reason=reason,
        until=until,
        hold_seconds=hold_seconds,
        as_machine=as_machine,
    )
    reporting.performed(perform(operation, dry_run=dry_run, yes=yes))


@click.command(cls=Verb, operation=NodeAlive)
@nodes_argument
@node_selector_option
@as_machine_option
@dry_run_option
def alive(fqdns: Sequence[str], selector: str | None, as_machine: bool, dry_run: bool) -> None:
    """Lift marks of nodes: they are alive, and probed from now on."""
    operation = NodeAlive(nodes=nodes_given(fqdns, selector), selector=selector, as_machine=as_machine)
    reporting.performed(perform(operation, dry_run=dry_run))
