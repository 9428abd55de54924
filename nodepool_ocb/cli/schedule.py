"""``deployment checks``: when what is ACTIVE in a deployment is checked, and what becomes of drift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from nodepool_ocb.cli.kit import completion, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine import deployments, drift
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.names import deployment_of


@click.command(cls=Verb, writes=True)
@click.argument("name", shell_complete=completion.deployments)
@click.option("--schedule", metavar="'0 3 * * *'", help="Minute, hour, day, month, weekday, as cron has them; in UTC.")
@click.option(
    "--refresh/--report",
    default=False,
    help="Run what has drifted again in place, with a check afterwards; or only report it.",
)
@click.option("--off", is_flag=True, help="No schedule of its own: that of the deployment above counts.")
@dry_run_option
def checks(name: str, schedule: str | None, refresh: bool, off: bool, dry_run: bool) -> None:
    """Have what is ACTIVE in a deployment checked by a schedule, and in those below it that have none of their own.

    What is due while annealers are away is checked once when they are back. With --refresh, what has drifted runs again,
    but for what is destructive.
    """
    if off == (schedule is not None):
        raise click.UsageError("give --schedule, or --off")
    if schedule is not None and (why := drift.wrong(schedule)):
        raise click.UsageError(why)

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        deployment_of(world, name)
        wanted = None if schedule is None else Checks(schedule=schedule, since=opened.now(), refresh=refresh)
        if changes := deployments.checked_by(world, name, wanted):
            yield changes

    with session.session() as opened:
        session.report(session.change(opened, decide, dry_run), dry_run)
