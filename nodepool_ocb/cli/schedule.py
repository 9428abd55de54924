"""``deployment checks``: the schedule of checks in a deployment, and the reaction to drift."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.deployments.changing import DeploymentChecks, wrong_schedule


@click.command(cls=Verb, operation=DeploymentChecks)
@click.argument("name", shell_complete=completion.deployments)
@click.option("--schedule", metavar="'0 3 * * *'", help="Minute, hour, day, month, weekday, as cron has them; in UTC.")
@click.option(
    "--refresh/--report",
    default=False,
    help="Run drifted noderoles again in place, with a check afterwards; or only report them.",
)
@click.option("--off", is_flag=True, help="No schedule of its own: that of the deployment above counts.")
@dry_run_option
def checks(name: str, schedule: str | None, refresh: bool, off: bool, dry_run: bool) -> None:
    """Check the ACTIVE noderoles of a deployment by a schedule, also in deployments below it without a schedule of their own.

    A check that is due while no annealer runs is done once when one is back. With --refresh, drifted noderoles run again,
    except destructive ones.
    """
    if off == (schedule is not None):
        raise click.UsageError("give --schedule, or --off")
    if schedule is not None and (why := wrong_schedule(schedule)):
        raise click.UsageError(why)
    operation = DeploymentChecks(name=name, schedule=schedule, refresh=refresh)
    reporting.performed(perform(operation, dry_run=dry_run))
