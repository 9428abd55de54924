"""``nodepool-ocb init``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.cluster.founding import InitCluster


@click.command(cls=Verb, operation=InitCluster)
@click.option("--admin-domain", metavar="DOMAIN", help="New nodes must be inside it; else as the configuration says.")
@dry_run_option
def command(admin_domain: str | None, dry_run: bool) -> None:
    """Make a new cluster in ZooKeeper, with its chroot, once.

    Daemons and all other commands refuse a place without a cluster. Where there is one already, it stays as it is, and
    this ends with 0 too; with 4 where it has another --admin-domain.
    """
    performed = perform(InitCluster(admin_domain=admin_domain), dry_run=dry_run)
    row = performed.answer.row
    if row is None:
        reporting.performed(performed)
        return
    if not row.made:
        output.say("the cluster already exists; nothing changed")
    output.thing(row, row.cluster)
