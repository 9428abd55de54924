"""``nodepool-ocb restored``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_flag
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.deployments.pausing import RestoredCluster


@click.command(cls=Verb, operation=RestoredCluster)
@click.option("--reason", default="ZooKeeper was restored from an older copy", show_default=True, help="Why.")
@dry_run_flag
def command(reason: str, dry_run: bool) -> None:
    """Say that ZooKeeper was restored from an older copy; before any daemon is started.

    Pauses everything, and raises all epochs, generations and ids above those of the lost time. So no machine refuses an
    order, and no result of the lost time is taken for that of a new run. A run that the copy has under way is to run again; a
    destructive noderole that is not done becomes ERROR. The page operations.md has the steps. May be given again.
    """
    performed = perform(RestoredCluster(reason=reason), dry_run=dry_run)
    if not dry_run:
        output.say("everything is paused; start the daemons, look at the machines, then: nodepool-ocb resume")
    reporting.performed(performed)
