"""``nodepool-ocb init``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_flag
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.cluster.founding import InitCluster


@click.command(cls=Verb, operation=InitCluster)
@click.option("--admin-domain", metavar="DOMAIN", help="New nodes must be inside it; else as the configuration says.")
@click.option(
    "--new-key", is_flag=True, help="Give a cluster that exists a new key for logs; the former one stays valid."
)
@dry_run_flag
def command(admin_domain: str | None, new_key: bool, dry_run: bool) -> None:
    """Make a new cluster in ZooKeeper, with its chroot, once.

    Daemons and all other commands refuse a place without a cluster. Where there is one already, it stays as it is, and
    this ends with 0 too; with 4 where it has another --admin-domain. A cluster without a key for logs gets one. The key before
    the newest stays valid, so run --new-key twice to end a key that others may know.
    """
    performed = perform(InitCluster(admin_domain=admin_domain, new_key=new_key), dry_run=dry_run)
    row, key_made = performed.answer.row, performed.answer.key_made
    if row is None or (dry_run and key_made):
        reporting.performed(performed)
        return
    if not row.made:
        output.say(f"the cluster already exists; {'it has a new key for logs' if key_made else 'nothing changed'}")
    output.thing(row, row.cluster)
