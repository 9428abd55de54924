"""``nodepool-ocb init``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.errors import Conflict
from nodepool_ocb.views.cluster import ClusterRow


@click.command(cls=Verb, writes=True)
@click.option("--admin-domain", metavar="DOMAIN", help="New nodes must be inside it; else as the configuration says.")
@dry_run_option
def command(admin_domain: str | None, dry_run: bool) -> None:
    """Make a new cluster in ZooKeeper, with its chroot, once.

    Daemons and all other commands refuse a place without a cluster. Where there is one already, it stays as it is, and
    this ends with 0 too; with 4 where it has another --admin-domain.
    """
    from nodepool_ocb.store import clusters

    with session.session(founding=True) as opened:
        domain = admin_domain or session.settings().admin_domain
        would = clusters.founding(opened, domain) if dry_run else []
        if would:
            session.report(would, dry_run)
        made = not dry_run and clusters.bootstrap(opened, admin_domain=domain, now=opened.now())
        cluster, where = clusters.current(opened), clusters.where(opened)
    if admin_domain and cluster.admin_domain != admin_domain:
        raise Conflict(
            f"the cluster {cluster.id} is there already, with {cluster.admin_domain or 'no'} admin domain;"
            " set admin_domain in the configuration instead"
        )
    if not made:
        output.say("it is there already, and stays as it is")
    row = ClusterRow(cluster=cluster.id, place=where, admin_domain=cluster.admin_domain, made=made)
    output.thing(row, cluster.id)
