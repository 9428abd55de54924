"""``daemon pause`` and ``daemon resume``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.maintenance.options import maintenance_options, refuse_both, say
from nodepool_ocb.operations.daemons.pausing import DaemonPauseSet, DaemonResume

daemons_argument = click.argument(
    "daemons", nargs=-1, required=True, metavar="ID|KIND@HOST...", shell_complete=completion.daemons
)


@click.command(cls=Verb, operation=DaemonPauseSet)
@daemons_argument
@maintenance_options
@dry_run_option
def pause(daemons: Sequence[str], reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let daemons begin nothing new: all of that kind on that host, also those that are started later.

    Their work goes on to its end. Other daemons take over rollouts and runs of tasks.
    """
    refuse_both(until, seconds)
    operation = DaemonPauseSet(daemons=tuple(daemons), reason=reason, until=until, seconds=seconds)
    performed = perform(operation, dry_run=dry_run)
    reporting.performed(performed)
    for each in performed.answer.paused:
        say(f"{each.title} begin nothing new", performed.answer.until, each.resume)


@click.command(cls=Verb, operation=DaemonResume)
@daemons_argument
@dry_run_option
def resume(daemons: Sequence[str], dry_run: bool) -> None:
    """Let daemons go on that were paused."""
    reporting.performed(perform(DaemonResume(daemons=tuple(daemons)), dry_run=dry_run))
