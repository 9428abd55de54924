"""Somebody says that a node is alive or not: ``node alive`` and ``node dead``."""

from __future__ import annotations

from typing import Any

import click

from nodepool_ocb.cli.kit import completion, times
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.nodes.changing import change
from nodepool_ocb.model.aliveness import Marker

as_machine_option = click.option(
    "--as-machine", is_flag=True, help="The machine says so itself, as it starts or stops: a person's mark stays."
)


@click.command(cls=Verb)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.option("--reason", help="Why; `node show` and `noderole explain` have it.")
@click.option("--until", type=times.moment, metavar="TIME", help="As 2026-01-31T18:00, or with Z behind it for UTC.")
@click.option("--for", "hold_seconds", type=times.duration, metavar="DURATION", help="As 90m, 2h30m or 1d.")
@as_machine_option
@dry_run_option
def dead(
    fqdn: str,
    reason: str | None,
    until: float | None,
    hold_seconds: float | None,
    as_machine: bool,
    dry_run: bool,
) -> None:
    """Mark a node as not alive: its noderoles are set back, and it is not probed before that time or `node alive`.

    A machine's own mark ends after an hour, unless it says otherwise.
    """
    if until is not None and hold_seconds is not None:
        raise click.UsageError("--until and --for contradict each other")
    _say(fqdn, as_machine, dry_run, alive=False, reason=reason, until=until, hold_seconds=hold_seconds)


@click.command(cls=Verb)
@click.argument("fqdn", shell_complete=completion.nodes)
@as_machine_option
@dry_run_option
def alive(fqdn: str, as_machine: bool, dry_run: bool) -> None:
    """Lift a node's mark: it is alive, and probed from now on."""
    _say(fqdn, as_machine, dry_run, alive=True)


def _say(fqdn: str, as_machine: bool, dry_run: bool, **word: Any) -> None:
    marker = Marker.MACHINE if as_machine else Marker.PERSON
    change(fqdn, lambda *_: {"marker": marker, **word}, dry_run)
