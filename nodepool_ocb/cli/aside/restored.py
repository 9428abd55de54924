"""``nodepool-ocb restored``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine.recovery import restoring
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Change
from nodepool_ocb.model.rights import Kind
from nodepool_ocb.store import daemons
from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb, writes=True)
@click.option("--reason", default="ZooKeeper was restored from an older copy", show_default=True, help="Why.")
@dry_run_option
def command(reason: str, dry_run: bool) -> None:
    """Say that ZooKeeper was restored from an older copy; before any daemon is started.

    Pauses everything, and raises all epochs, generations and ids above those of the lost time. So no machine refuses an
    order, and no result of the lost time is taken for that of a new run. A run that the copy has under way is to run again; a
    destructive noderole that is not done becomes ERROR. The page operations.md has the steps. May be given again.
    """

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        builders = daemons.read(opened, Kind.BUILDER)
        yield from restoring.restored(world, builders, now, connection.me(), reason)

    with connection.session() as session:
        now = session.now()
        changes = connection.change(session, decide, dry_run)
    if not dry_run:
        output.say("everything is paused; start the daemons, look at the machines, then: nodepool-ocb resume")
    connection.report(changes, dry_run)
