"""``deployment pause`` and ``deployment resume``; of everything, as ``pause`` and ``resume``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.maintenance.options import maintenance_options, refuse_both, say
from nodepool_ocb.operations.deployments.pausing import SYSTEM, DeploymentPause, DeploymentResume

names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=completion.deployments
)


@click.command(cls=Verb, operation=DeploymentPause)
@names_argument
@maintenance_options
@dry_run_option
def pause(names: Sequence[str], reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let nothing new begin in deployments, and in all below them; runs go on to their end.

    Rollouts and runs of tasks there send nothing, and the time of their phases stands still.
    """
    refuse_both(until, seconds)
    paused(DeploymentPause(names=tuple(names), reason=reason, until=until, seconds=seconds), dry_run)


@click.command(cls=Verb, operation=DeploymentResume)
@names_argument
@dry_run_option
def resume(names: Sequence[str], dry_run: bool) -> None:
    """Let annealers go on in deployments that were paused."""
    reporting.performed(perform(DeploymentResume(names=tuple(names)), dry_run=dry_run))


def paused(operation: DeploymentPause, dry_run: bool) -> None:
    """Pause deployments, and print the changes."""
    performed = perform(operation, dry_run=dry_run)
    reporting.performed(performed)
    for (called, lift), name in zip(performed.answer.lifts, dict.fromkeys(operation.names), strict=True):
        where = "" if name == SYSTEM else " there"
        say(f"{called} is paused: annealers begin nothing new{where}", performed.answer.until, lift)
