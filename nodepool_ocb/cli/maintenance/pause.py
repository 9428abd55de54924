"""``nodepool-ocb pause``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.maintenance.deployment import paused
from nodepool_ocb.cli.maintenance.options import maintenance_options, refuse_both
from nodepool_ocb.operations.deployments.pausing import PauseAll


@click.command(cls=Verb, operation=PauseAll)
@maintenance_options
@dry_run_option
def command(reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let annealers begin nothing new anywhere: `deployment pause system`, which is above all others.

    Runs go on to their end. Builders go on: `daemon pause`, `image pause`.
    """
    refuse_both(until, seconds)
    paused(PauseAll(reason=reason, until=until, seconds=seconds), dry_run)
