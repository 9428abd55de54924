"""``noderole wait``, ``commit``, ``propose``, ``refresh``, ``retry`` and ``cancel``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, settled_option, timeout_option, wait_options
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import noderoles_argument, noderoles_given, selector_option
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.operations.noderoles.acting import (
    NoderoleCancel,
    NoderoleCommit,
    NoderoleCommitOutdated,
    NoderolePropose,
    NoderoleRefresh,
    NoderoleRetry,
)
from nodepool_ocb.operations.noderoles.awaiting import NoderoleWaitLook
from nodepool_ocb.operations.noderoles.reading import NoderoleWait


@click.command(cls=Verb, operation=(NoderoleWait, NoderoleWaitLook))
@noderoles_argument
@selector_option
@settled_option
@timeout_option
def wait(names: Sequence[str], selector: str | None, timeout_seconds: float | None) -> None:
    """Wait until noderoles are ACTIVE; ends at once when one fails, is deleted, or cannot become ACTIVE."""
    operation = NoderoleWait(noderoles=noderoles_given(names, selector), selector=selector)
    waiting.wait(operation.awaited(perform(operation).answer), timeout_seconds)


@click.command(cls=Verb, operation=(NoderoleCommit, NoderoleCommitOutdated))
@noderoles_argument
@selector_option
@force_option
@wait_options
@dry_run_option
def commit(
    names: Sequence[str], selector: str | None, force: bool, wait: bool, timeout_seconds: float | None, dry_run: bool
) -> None:
    """Let annealers have noderoles that are PROPOSED, and run again in place those that are ACTIVE and outdated.

    Refused without --force where a rollout under way commits them in its turn.
    """
    operation = NoderoleCommit(noderoles=noderoles_given(names, selector), selector=selector, force=force)
    waiting.commit_and_wait(operation, wait, timeout_seconds, dry_run)


@click.command(cls=Verb, operation=NoderolePropose)
@noderoles_argument
@selector_option
@dry_run_option
def propose(names: Sequence[str], selector: str | None, dry_run: bool) -> None:
    """Set noderoles back to PROPOSED, to change them; noderoles that require them wait."""
    operation = NoderolePropose(noderoles=noderoles_given(names, selector), selector=selector)
    performed = perform(operation, dry_run=dry_run)
    reporting.performed(performed)
    for sentence in performed.answer.after:
        output.say(sentence)


@click.command(cls=Verb, operation=NoderoleRefresh)
@noderoles_argument
@selector_option
@wait_options
@dry_run_option
def refresh(
    names: Sequence[str], selector: str | None, wait: bool, timeout_seconds: float | None, dry_run: bool
) -> None:
    """Run ACTIVE noderoles again in place; the noderoles below them go on."""
    operation = NoderoleRefresh(noderoles=noderoles_given(names, selector), selector=selector)
    waiting.perform_and_wait(operation, wait, timeout_seconds, dry_run)


@click.command(cls=Verb, operation=NoderoleRetry)
@noderoles_argument
@selector_option
@click.option("--failed", is_flag=True, help="All that are in ERROR.")
@click.option("--deployment", shell_complete=completion.deployments, help="With --failed: only of this one.")
@force_option
@wait_options
@dry_run_option
def retry(
    names: Sequence[str], selector: str | None, failed: bool, deployment: str | None, force: bool, wait: bool,
    timeout_seconds: float | None, dry_run: bool,
) -> None:  # fmt: skip
    """Run failed noderoles again; one that waits for its next attempt runs now.

    Refused without --force where a rollout under way sends them in its turn; once it is over, `rollout retry` does.
    """
    if (bool(names) or selector is not None) == failed or (deployment and not failed):
        raise click.UsageError("give noderoles, -l EXPR, or --failed [--deployment D]")
    operation = NoderoleRetry(
        noderoles=() if failed else noderoles_given(names, selector),
        selector=selector,
        failed=failed,
        deployment=deployment,
        force=force,
    )
    waiting.perform_and_wait(operation, wait, timeout_seconds, dry_run)


@click.command(cls=Verb, operation=NoderoleCancel)
@noderoles_argument
@selector_option
@click.option("--reason", default="cancelled by a person", show_default=True, help="The reason that their records get.")
@dry_run_option
def cancel(names: Sequence[str], selector: str | None, reason: str, dry_run: bool) -> None:
    """End the runs on the machines; the noderoles are then in ERROR, and may be retried."""
    operation = NoderoleCancel(noderoles=noderoles_given(names, selector), selector=selector, reason=reason)
    reporting.performed(perform(operation, dry_run=dry_run))
