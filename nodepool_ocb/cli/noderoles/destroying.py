"""``noderole redeploy`` and ``unbind``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, wait_options, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import noderoles_argument, noderoles_given, selector_option
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.operations.noderoles.destroying import NoderoleRedeploy, NoderoleUnbind


@click.command(cls=Verb, operation=NoderoleRedeploy)
@noderoles_argument
@selector_option
@yes_option
@force_option
@wait_options
@dry_run_option
def redeploy(
    names: Sequence[str], selector: str | None, yes: bool, force: bool, wait: bool, timeout_seconds: float | None,
    dry_run: bool,
) -> None:  # fmt: skip
    """Run noderoles again from the start, even if their roles are destructive and were done.

    Refused without --force where a rollout under way has to do with them.
    """
    operation = NoderoleRedeploy(noderoles=noderoles_given(names, selector), selector=selector, force=force)
    waiting.perform_and_wait(operation, wait, timeout_seconds, dry_run, yes)


@click.command(cls=Verb, operation=NoderoleUnbind)
@noderoles_argument
@selector_option
@yes_option
@dry_run_option
def unbind(names: Sequence[str], selector: str | None, yes: bool, dry_run: bool) -> None:
    """Delete noderoles, with those below them that only they hold; their changes on the machines stay."""
    operation = NoderoleUnbind(noderoles=noderoles_given(names, selector), selector=selector)
    reporting.performed(perform(operation, dry_run=dry_run, yes=yes))
