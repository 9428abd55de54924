"""``nodepool-ocb rollout``: strategies that are carried out."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, timeout_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.cli.rollouts import watch as rolloutwatch
from nodepool_ocb.cli.rollouts.rolling import deployment_option, rollout_argument
from nodepool_ocb.cli.rollouts.start import start
from nodepool_ocb.cli.rollouts.strategy import check, plan, select
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.rollouts.directing import (
    RolloutAccept,
    RolloutCancel,
    RolloutDirected,
    RolloutPromote,
    RolloutResume,
    RolloutRetry,
)
from nodepool_ocb.operations.rollouts.reading import RolloutList, RolloutShow, RolloutWait
from nodepool_ocb.operations.rollouts.watching import RolloutWaitLook
from nodepool_ocb.views.rollouts import tables

LIST_COLUMNS = ("rollout", "strategy", "state", "since", "started", "by", "groups", "nodes", "driver", "reason")


@click.group(cls=Noun)
def command() -> None:
    """Deployment strategies: check them, plan, carry them out, look on.

    ROLLOUT is DEPLOYMENT/ID, or DEPLOYMENT alone for its newest; without it, the newest of the only deployment that has any.
    """


for verb in (check, plan, select, start):
    command.add_command(verb)

reason_option = click.option("--reason", help="Why.")
attempt_option = click.option(
    "--attempt", type=click.IntRange(1), default=1, show_default=True,
    help="The expected attempt, as `show` has it: refused if the rollout was continued since.",
)  # fmt: skip


# -- looking --


@command.command("list", operation=RolloutList)
def list_() -> None:
    """The newest ten rollouts of every deployment, with their states and their drivers."""
    found = perform(RolloutList()).answer
    output.things(found, LIST_COLUMNS, key="rollout", shown=map(tables.words, found))


@command.command(operation=RolloutShow)
@rollout_argument
@deployment_option
@click.option(
    "--report", "as_report", is_flag=True, help="The report: every phase of every group, and every node by its state."
)
@click.option(
    "--watch", is_flag=True, help="As it changes, until it is over; one JSON object a line, unless on a terminal."
)
def show(rollout: str | None, deployment: str | None, as_report: bool, watch: bool) -> None:
    """One rollout: its groups with their states, reasons and nodes, and the nodes that failed."""
    found = perform(RolloutShow(rollout=rollout, deployment=deployment, report=as_report, follow=watch)).answer
    if watch:
        rolloutwatch.watch(found.key)
    elif found.reported is not None:
        output.text(found.reported, found.reported.report)
    else:
        output.thing(found.document, str(found.key), *rolling.parts(found.document))


@command.command(operation=(RolloutWait, RolloutWaitLook))
@rollout_argument
@deployment_option
@click.option(
    "--fail-fast", is_flag=True, help="End as soon as a critical group has failed, though others still go on."
)
@timeout_option
def wait(rollout: str | None, deployment: str | None, fail_fast: bool, timeout_seconds: float | None) -> None:
    """Wait until a rollout is over, or goes on only after a promotion; then print its report.

    Exits with 6 when a critical group failed, it was cancelled, or a group pauses.
    """
    key = perform(RolloutWait(rollout=rollout, deployment=deployment)).answer
    rolloutwatch.wait(key, timeout_seconds, fail_fast)


# -- commands --


def _direct(operation: Operation[RolloutDirected], dry_run: bool) -> None:
    """Perform it, and print how the rollout stands then: one document; or the changes of a dry run."""
    performed = perform(operation, dry_run=dry_run)
    if dry_run:
        reporting.performed(performed)
        return
    for sentence in performed.answer.explanations or ("nothing to do",):
        output.say(sentence)
    if performed.answer.row is not None:
        rolling.print_row(performed.answer.row)
    for sentence in performed.answer.after:
        output.say(sentence)


@command.command(operation=RolloutCancel)
@rollout_argument
@deployment_option
@reason_option
@dry_run_option
def cancel(rollout: str | None, deployment: str | None, reason: str | None, dry_run: bool) -> None:
    """Send no more nodes, take back noderoles that have not begun, and end those that run."""
    _direct(RolloutCancel(rollout=rollout, deployment=deployment, reason=reason), dry_run)


@command.command(operation=RolloutResume)
@rollout_argument
@deployment_option
@attempt_option
@dry_run_option
def resume(rollout: str | None, deployment: str | None, attempt: int, dry_run: bool) -> None:
    """Go on where a rollout was stopped or cancelled; failed nodes stay failed."""
    _direct(RolloutResume(rollout=rollout, deployment=deployment, attempt=attempt), dry_run)


@command.command(operation=RolloutRetry)
@rollout_argument
@deployment_option
@attempt_option
@dry_run_option
def retry(rollout: str | None, deployment: str | None, attempt: int, dry_run: bool) -> None:
    """Send every failed node again, once the rollout is over; nodes that succeeded stay as they are."""
    _direct(RolloutRetry(rollout=rollout, deployment=deployment, attempt=attempt), dry_run)


@command.command(operation=RolloutPromote)
@click.argument("group", shell_complete=completion.groups)
@rollout_argument
@deployment_option
@click.option("--batch", type=click.IntRange(1), required=True, help="The batch after which it pauses.")
@attempt_option
@dry_run_option
def promote(group: str, rollout: str | None, deployment: str | None, batch: int, attempt: int, dry_run: bool) -> None:
    """Let a group that pauses after a batch go on with the next. `show` and `wait` print the command."""
    operation = RolloutPromote(group=group, rollout=rollout, deployment=deployment, batch=batch, attempt=attempt)
    _direct(operation, dry_run)


@command.command(operation=RolloutAccept)
@click.argument("group", shell_complete=completion.groups)
@rollout_argument
@deployment_option
@click.option("--reason", required=True, help="Why its failure may count as success.")
@attempt_option
@dry_run_option
def accept(group: str, rollout: str | None, deployment: str | None, reason: str, attempt: int, dry_run: bool) -> None:
    """Let a group's failure count as success: those that depend on it go on, and it does not fail the rollout."""
    operation = RolloutAccept(group=group, rollout=rollout, deployment=deployment, reason=reason, attempt=attempt)
    _direct(operation, dry_run)
