"""``deployment checks``: when what is ACTIVE in a deployment is checked, and what becomes of drift."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.deployments.changing import DeploymentChecks, wrong_schedule


@click.command(cls=Verb, operation=DeploymentChecks)
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
    if schedule is not None and (why := wrong_schedule(schedule)):
        raise click.UsageError(why)
    operation = DeploymentChecks(name=name, schedule=schedule, refresh=refresh)
    session.report_performed(perform(operation, dry_run=dry_run))
