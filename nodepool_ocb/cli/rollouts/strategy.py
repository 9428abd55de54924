"""``rollout check``, ``plan`` and ``select``: strategies looked at, before they are carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.kit.selecting import node_selector_option
from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.rollouts import selecting, strategies
from nodepool_ocb.operations.rollouts.selecting import RolloutSelect
from nodepool_ocb.operations.rollouts.starting import PlannedRollout, RolloutPlanning
from nodepool_ocb.views.rollouts import strategies as shown

if TYPE_CHECKING:
    from nodepool_ocb.operations.rollouts.strategies import Strategy

name_option = click.option("--name", help="The strategy of this name, where the file holds several.")
files_argument = click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
one_deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="Of which deployment; else the only one there is."
)
deployment_option = click.option(
    "--deployment", default="system", show_default=True, shell_complete=completion.deployments,
    help="Nodes of this deployment, and of those below it.",
)  # fmt: skip


def read(files: Sequence[str], name: str | None) -> Strategy:
    """The strategy in these files; its warnings are printed."""
    found = strategies.read(files, name)
    for warning in found.warnings:
        output.say(f"warning: {warning}")
    return found.strategy


@click.command(cls=Verb, local="It checks files of this host.")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@name_option
def check(files: Sequence[str], name: str | None) -> None:
    """Say everything that is wrong in a strategy, with file, line and path; ZooKeeper is not asked.

    Airship's DeploymentConfiguration may stand beside it, in the same file or in another.
    """
    found = read(files, name)
    for note in shown.skipped(found):
        output.say(f"note: {note}")
    rows = shown.checked(found)
    if output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        columns = ("level", "name", "critical", "depends_on", "success_criteria")
        output.thing(shown.StrategyDocument(found), found.name, output.table(rows, columns))


@click.command(cls=Verb, operation=RolloutPlanning)
@files_argument
@one_deployment_option
@name_option
@node_selector_option
def plan(files: Sequence[str], deployment: str | None, name: str | None, selector: str | None) -> None:
    """Show which nodes each group of a strategy has, and in which order; nothing is begun.

    Without a file: one critical group of all nodes, which must all succeed. Fails where a group's criteria cannot be met, or
    where a noderole waits for a parent that comes later.
    """
    found = read(files, name) if files else None
    planned = perform(RolloutPlanning(strategy=found, deployment=deployment, selector=selector)).answer
    show(planned)
    say_virtual(planned)
    if planned.problems:
        raise Invalid(planned.problems)


def show(planned: PlannedRollout) -> None:
    """Print a plan: one document."""
    rows = shown.planned(planned.strategy, planned.plan)
    if output.chosen() == "table":
        output.render(output.table(rows, ("level", "name", "critical", "nodes", "depends_on", "success_criteria")))
        for note in planned.notes:
            output.say(note)
    elif output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        output.thing(planned.document, planned.strategy.name)


def say_virtual(planned: PlannedRollout) -> None:
    """A note about the virtual nodes, if there are any."""
    if planned.virtual is not None:
        output.say(planned.virtual)


@click.command(cls=Verb, operation=RolloutSelect)
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...")
@deployment_option
@node_selector_option
def select(selectors: Sequence[str], deployment: str, selector: str | None) -> None:
    """Say which nodes selectors mean: any of them, each written as in a strategy; all nodes without one. -l narrows these.

    nodepool-ocb rollout select '{node_tags: [control], rack_names: [rack03]}' '{node_names: [ntp01]}' -o name
    """
    selecting.parsed(selectors)
    operation = RolloutSelect(selectors=tuple(selectors), deployment=deployment, selector=selector)
    output.things(perform(operation).answer, ("name", "deployment", "rack", "tags", "labels"))
