"""Somebody says that a node is alive or not: ``node alive`` and ``node dead``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from nodepool_ocb.cli.kit import times
from nodepool_ocb.cli.kit.options import Verb, confirm, dry_run_option, yes_option
from nodepool_ocb.cli.kit.selecting import Nodes, nodes_argument, selector_option
from nodepool_ocb.cli.nodes.changing import change
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.model.aliveness import Marker

as_machine_option = click.option(
    "--as-machine", is_flag=True, help="The machine says so itself, as it starts or stops: a person's mark stays."
)


@click.command(cls=Verb, writes=True)
@nodes_argument
@selector_option
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
        raise click.UsageError("--until and --for contradict each other")

    def sure(views: Sequence[NodeView]) -> None:
        if len(views) > 1:
            names = ", ".join(view.name for view in views)
            confirm(f"mark {len(views)} nodes as not alive, and set their noderoles back: {names}", yes)

    chosen = Nodes(fqdns, selector, sure=None if dry_run else sure)
    _say(chosen, as_machine, dry_run, alive=False, reason=reason, until=until, hold_seconds=hold_seconds)


@click.command(cls=Verb, writes=True)
@nodes_argument
@selector_option
@as_machine_option
@dry_run_option
def alive(fqdns: Sequence[str], selector: str | None, as_machine: bool, dry_run: bool) -> None:
    """Lift marks of nodes: they are alive, and probed from now on."""
    _say(Nodes(fqdns, selector), as_machine, dry_run, alive=True)


def _say(chosen: Nodes, as_machine: bool, dry_run: bool, **word: Any) -> None:
    marker = Marker.MACHINE if as_machine else Marker.PERSON
    change(chosen, lambda *_: {"marker": marker, **word}, dry_run)
