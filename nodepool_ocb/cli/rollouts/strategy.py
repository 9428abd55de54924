"""``rollout check``, ``plan`` and ``select``: strategies looked at, before they are carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.cli.rollouts import stages
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Node
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.performer import Reader
from nodepool_ocb.operations.rollouts import selecting
from nodepool_ocb.operations.rollouts.selecting import RolloutSelect

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import RolloutPlan
    from nodepool_ocb.rollout.strategy import Strategy
    from nodepool_ocb.store.client.session import Session

name_option = click.option("--name", help="The strategy of this name, where the file holds several.")
files_argument = click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
one_deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="Of which deployment; else the only one there is."
)
deployment_option = click.option(
    "--deployment", default="system", show_default=True, shell_complete=completion.deployments,
    help="Nodes of this deployment, and of those below it.",
)  # fmt: skip


def chosen(files: Sequence[str], name: str | None) -> Strategy:
    """The strategy in these files; prints warnings about them."""
    from nodepool_ocb.rollout import reading

    found = reading.read(files)
    for warning in found.warnings:
        output.say(f"warning: {warning}")
    return found.chosen(name, ", ".join(files))


def deployment_meant(world: World, wanted: str | None) -> str:
    """The deployment of this name, which is there; else the only one beside system."""
    if wanted is not None:
        deployment_of(world, wanted)
        return wanted
    own = sorted(world.deployments.keys() - {SYSTEM})
    if len(own) > 1:
        raise click.UsageError(f"there are several deployments: {', '.join(own)}; name one with --deployment")
    return own[0] if own else SYSTEM


@click.command(cls=Verb, local="It checks files of this host.")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@name_option
def check(files: Sequence[str], name: str | None) -> None:
    """Say everything that is wrong in a strategy, with file, line and path; ZooKeeper is not asked.

    Airship's DeploymentConfiguration may stand beside it, in the same file or in another.
    """
    from nodepool_ocb.views.rollouts import strategies

    found = chosen(files, name)
    for note in strategies.skipped(found):
        output.say(f"note: {note}")
    rows = strategies.checked(found)
    if output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        columns = ("level", "name", "critical", "depends_on", "success_criteria")
        output.thing(strategies.StrategyDocument(found), found.name, output.table(rows, columns))


@click.command(cls=Verb)
@files_argument
@one_deployment_option
@name_option
@selector_option
def plan(files: Sequence[str], deployment: str | None, name: str | None, selector: str | None) -> None:
    """Show which nodes each group of a strategy has, and in which order; nothing is begun.

    Without a file: one critical group of all nodes, which must all succeed. Fails where a group's criteria cannot be met, or
    where a noderole waits for a parent that comes later.
    """
    from nodepool_ocb.rollout import plan as planning
    from nodepool_ocb.rollout import precedence, strategy
    from nodepool_ocb.views.rollouts import strategies

    found = chosen(files, name) if files else strategy.without_idle_phases(strategy.WHOLE)
    with session.session() as opened:
        world = session.load(opened)
        deployment = deployment_meant(world, deployment)
        nodes = inventory_meant(opened, world, deployment, selector)
        made, rollout = planning.plan(found, nodes), planning.begin(found, nodes, 0.0)
        sending = stages.planned(opened, world, deployment, rollout) if stages.named(rollout) else None
        if sending is not None:
            stages.remark(opened, sending, world)
    show(found, made, deployment, rollout.head.inventory)
    remark_virtual(world, deployment)
    problems = [*strategies.unmet(made), *strategies.late(list(precedence.late(world, deployment, rollout)))]
    if problems:
        raise Invalid(problems)


def show(strategy: Strategy, made: RolloutPlan, deployment: str, inventory: str) -> None:
    """Print a plan: one document."""
    from nodepool_ocb.views.rollouts import strategies

    rows = strategies.planned(strategy, made)
    if output.chosen() == "table":
        output.render(output.table(rows, ("level", "name", "critical", "nodes", "depends_on", "success_criteria")))
        remark(strategy, made)
    elif output.chosen() == "name":
        output.things(rows, ("name",))
    else:
        output.thing(strategies.RolloutPlanDocument(strategy.name, deployment, inventory, made), strategy.name)


def remark(strategy: Strategy, made: RolloutPlan) -> None:
    """Prints notes about the strategy on stderr."""
    from nodepool_ocb.views.rollouts import strategies

    for note in strategies.notes(strategy, made):
        output.say(f"note: {note}")


def remark_virtual(world: World, deployment: str) -> None:
    """A note about the virtual nodes that are in no group."""
    from nodepool_ocb.rollout.selectors import virtual

    if left_out := virtual(world, deployment):
        many = counted(len(left_out), "virtual node is", "virtual nodes are")
        output.say(
            f"note: {many} in no group, since a rollout is about machines: {some(left_out)};"
            f" to commit PROPOSED noderoles there: nodepool-ocb node commit {left_out[0]}"
        )


def inventory_meant(opened: Session, world: World, deployment: str, selector: str | None) -> Mapping[str, Node]:
    """The machines of a deployment that a rollout is about: all, or those that a selector means."""
    reader = Reader(performer(), opened, {})
    reader.world = world
    return reader.run(selecting.inventory(world, deployment, selector))


@click.command(cls=Verb, operation=RolloutSelect)
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...")
@deployment_option
@selector_option
def select(selectors: Sequence[str], deployment: str, selector: str | None) -> None:
    """Say which nodes selectors mean: any of them, each written as in a strategy; all nodes without one. -l narrows these.

    nodepool-ocb rollout select '{node_tags: [control], rack_names: [rack03]}' '{node_names: [ntp01]}' -o name
    """
    selecting.parsed(selectors)
    operation = RolloutSelect(selectors=tuple(selectors), deployment=deployment, selector=selector)
    output.things(perform(operation).answer, ("name", "deployment", "rack", "tags", "labels"))
