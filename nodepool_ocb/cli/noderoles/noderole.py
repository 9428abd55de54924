"""``nodepool-ocb noderole``: reading, changing and controlling noderoles."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, settled_option, timeout_option, wait_options
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.kit.sealing import reveal_option
from nodepool_ocb.cli.kit.selecting import noderoles_argument, noderoles_given, selector_option
from nodepool_ocb.cli.noderoles import waiting
from nodepool_ocb.cli.noderoles.attributes import attributes
from nodepool_ocb.cli.noderoles.causes import causes
from nodepool_ocb.cli.noderoles.checking import check, list_drift
from nodepool_ocb.cli.noderoles.destroying import redeploy, unbind
from nodepool_ocb.cli.noderoles.explain import explain
from nodepool_ocb.cli.noderoles.force import force_option
from nodepool_ocb.cli.noderoles.log import log
from nodepool_ocb.cli.noderoles.setting import set_, unset
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.noderoles import reading
from nodepool_ocb.operations.noderoles.acting import (
    NoderoleCancel,
    NoderoleCommit,
    NoderoleCommitOutdated,
    NoderolePropose,
    NoderoleRefresh,
    NoderoleRetry,
)
from nodepool_ocb.operations.noderoles.awaiting import NoderoleWaitLook
from nodepool_ocb.operations.noderoles.grid import NoderoleListStates
from nodepool_ocb.operations.noderoles.reading import NoderoleList, NoderoleShow, NoderoleWait
from nodepool_ocb.operations.noderoles.timeline import NoderoleListRuns


@click.group(cls=Noun)
def command() -> None:
    """Roles on nodes, written ROLE@FQDN: states, explanations, logs, retries."""


command.add_command(attributes)
command.add_command(causes)
command.add_command(check)
command.add_command(explain)
command.add_command(list_drift)
command.add_command(log)
command.add_command(redeploy)
command.add_command(set_)
command.add_command(unbind)
command.add_command(unset)

name_argument = click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)


# -- looking --


@command.command("list", operation=(NoderoleList, NoderoleListStates, NoderoleListRuns))
@click.option("--state", "states", multiple=True, type=click.Choice([*map(str, State)], case_sensitive=False))
@click.option("--deployment", shell_complete=completion.deployments)
@click.option("--node", "fqdn", shell_complete=completion.nodes)
@click.option("--role", shell_complete=completion.roles)
@click.option(
    "--outdated",
    "only_outdated",
    is_flag=True,
    help="ACTIVE ones with inputs that changed since their newest run, and the changes.",
)
@click.option("--by-node", is_flag=True, help="One line for each node, with a letter for the state of each role.")
@click.option("--runs", is_flag=True, help="With -l: their newest runs, and those that run or wait now.")
@click.option("--watch", is_flag=True, help="One JSON object a line for each, now and whenever it changes.")
@selector_option
def list_(
    states: Sequence[str], deployment: str | None, fqdn: str | None, role: str | None, only_outdated: bool, by_node: bool,
    runs: bool, watch: bool, selector: str | None,
) -> None:  # fmt: skip
    """Noderoles and their states."""
    if runs:
        if by_node or watch or only_outdated or states or fqdn or role or deployment or selector is None:
            raise click.UsageError("--runs goes with -l alone: give -l 'deployment:lab role:ntp'")
        _list_runs(NoderoleListRuns(selector=selector))
        return
    if by_node:
        if watch or only_outdated or states or fqdn or role:
            raise click.UsageError("--by-node goes with --deployment and -l alone: give -l 'state:ERROR role:ntp'")
        _list_by_node(NoderoleListStates(deployment=deployment, selector=selector))
        return
    if watch and (only_outdated or selector is not None):
        raise click.UsageError("--watch goes neither with --outdated nor with -l: attributes are not watched")

    operation = NoderoleList(
        states=tuple(states),
        deployment=deployment,
        node=fqdn,
        role=role,
        selector=selector,
        outdated=only_outdated,
        differences=output.chosen() == "table",
    )
    if watch:
        for row in reading.watched(performer(), operation):
            output.line(row)
        return
    found = perform(operation).answer
    if found.outdated is not None:
        output.things(found.outdated, ("noderole", "deployment", "different", "advice"), key="noderole")
    else:
        output.things(found.rows, ("noderole", "state", "deployment", "since", "reason"), key="noderole")


def _list_runs(operation: NoderoleListRuns) -> None:
    found = perform(operation).answer
    runs = output.table(found.runs, ("noderole", "run", "outcome", "queued", "started", "ended"))
    output.thing(found, "noderoles", runs, output.table(found.present, ("noderole", "state", "since", "reason")))


def _list_by_node(operation: NoderoleListStates) -> None:
    found = perform(operation).answer
    tables = [output.table(found.roles, ("role", "milestone", "noderoles"))]
    output.thing(found, "noderoles", *tables, output.table(found.lines, ("node", "rack", "marks", "states")))


@command.command(operation=NoderoleShow)
@name_argument
@reveal_option
def show(name: str, reveal: bool) -> None:
    """One noderole: its record, its neighbours, its attributes, and its runs."""
    document = perform(NoderoleShow(noderole=name, reveal=reveal)).answer
    tables = [output.fields(document, document.attributes, but=("attributes", "runs"))]
    if document.runs:
        columns = ("run", "outcome", "generation", "exit_code", "started", "ended", "log")
        tables.append(output.table(document.runs, columns))
    output.thing(document, name, *tables)


@command.command(operation=(NoderoleWait, NoderoleWaitLook))
@noderoles_argument
@selector_option
@settled_option
@timeout_option
def wait(names: Sequence[str], selector: str | None, timeout_seconds: float | None) -> None:
    """Wait until noderoles are ACTIVE; ends at once when one fails, is deleted, or cannot become ACTIVE."""
    operation = NoderoleWait(noderoles=noderoles_given(names, selector), selector=selector)
    waiting.wait(operation.awaited(perform(operation).answer), timeout_seconds)


# -- changing --


@command.command(operation=(NoderoleCommit, NoderoleCommitOutdated))
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


@command.command(operation=NoderolePropose)
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


@command.command(operation=NoderoleRefresh)
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


@command.command(operation=NoderoleRetry)
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


@command.command(operation=NoderoleCancel)
@noderoles_argument
@selector_option
@click.option("--reason", default="cancelled by a person", show_default=True, help="The reason that their records get.")
@dry_run_option
def cancel(names: Sequence[str], selector: str | None, reason: str, dry_run: bool) -> None:
    """End the runs on the machines; the noderoles are then in ERROR, and may be retried."""
    operation = NoderoleCancel(noderoles=noderoles_given(names, selector), selector=selector, reason=reason)
    reporting.performed(perform(operation, dry_run=dry_run))
