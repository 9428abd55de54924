"""``rollout check``, ``plan`` and ``select``: strategies looked at, before they are carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import deployment_of
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Node

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import Plan
    from nodepool_ocb.rollout.strategy import Strategy

name_option = click.option("--name", help="The strategy of this name, where the file holds several.")
deployment_option = click.option(
    "--deployment", default="system", show_default=True, shell_complete=completion.deployments,
    help="Nodes of this deployment, and of those below it.",
)  # fmt: skip


@click.command(cls=Verb)
@click.argument("file", type=click.Path())
@name_option
def check(file: str, name: str | None) -> None:
    """Say everything that is wrong in a strategy, with file, line and path; ZooKeeper is not asked."""
    from nodepool_ocb.rollout import reading
    from nodepool_ocb.views.rollouts import strategies

    found = reading.load(file, name)
    rows = strategies.checked(found)
    if output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        columns = ("level", "name", "critical", "depends_on", "success_criteria")
        output.thing(strategies.StrategyDocument(found), found.name, output.table(rows, columns))


@click.command(cls=Verb)
@click.argument("file", type=click.Path(), required=False)
@deployment_option
@name_option
def plan(file: str | None, deployment: str, name: str | None) -> None:
    """Show which nodes each group of a strategy has, and in which order; nothing is begun.

    Without a file: one critical group of all nodes, which must all succeed. Fails where a group's criteria cannot be met.
    """
    from nodepool_ocb.rollout import plan as planning
    from nodepool_ocb.rollout import reading, strategy
    from nodepool_ocb.rollout import selectors as selecting
    from nodepool_ocb.views.rollouts import strategies

    chosen = reading.load(file, name) if file else strategy.WHOLE
    nodes = _nodes(deployment)
    made = planning.plan(chosen, nodes)
    show(chosen, made, deployment, selecting.version(nodes))
    if made.unmet:
        raise Invalid(strategies.unmet(made))


def show(strategy: Strategy, made: Plan, deployment: str, inventory: str) -> None:
    """Print a plan: one document."""
    from nodepool_ocb.views.rollouts import strategies

    rows = strategies.planned(strategy, made)
    if output.chosen() == "table":
        output.render(output.table(rows, ("level", "name", "critical", "nodes", "depends_on", "success_criteria")))
        remark(made)
    elif output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        output.thing(strategies.PlanDocument(strategy.name, deployment, inventory, made), strategy.name)


def remark(made: Plan) -> None:
    """What somebody should know, on stderr."""
    from nodepool_ocb.views.rollouts import strategies

    for note in strategies.notes(made):
        output.say(f"note: {note}")


def _nodes(deployment: str) -> Mapping[str, Node]:
    from nodepool_ocb.rollout.selectors import inventory

    world = session.world()
    deployment_of(world, deployment)
    return inventory(world, deployment)


@click.command(cls=Verb)
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...")
@deployment_option
def select(selectors: Sequence[str], deployment: str) -> None:
    """Say which nodes selectors mean: any of them, each written as in a strategy; all nodes without one.

    nodepool-ocb rollout select '{node_tags: [control], rack_names: [rack03]}' '{node_names: [ntp01]}' -o name
    """
    from nodepool_ocb.rollout import reading
    from nodepool_ocb.rollout import selectors as selecting
    from nodepool_ocb.views.rollouts import strategies

    problems: list[str] = []
    wanted = []
    for number, text in enumerate(selectors, 1):
        try:
            wanted.append(reading.selector(text, f"selector {number}"))
        except Invalid as wrong:
            problems += wrong.problems
    if problems:
        raise Invalid(problems)
    nodes = _nodes(deployment)
    rows = strategies.selected(selecting.select(wanted, nodes), nodes)
    output.things(rows, ("name", "deployment", "rack", "tags", "labels"))
