"""``tasks plan`` and ``tasks graph``: what a run would do, before it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.pictures import drawings
from nodepool_ocb.cli.tasks import lists, planning, running, selecting
from nodepool_ocb.cli.tasks.lists import Owner
from nodepool_ocb.cli.tasks.planning import Prepared
from nodepool_ocb.engine.world import World
from nodepool_ocb.tasks.tasklist import Kind
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.tasks import drawing, plans
from nodepool_ocb.views.tasks.runs import Key

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nodepool_ocb.store.client.session import Session

REMOVABLE = (*map(str, (Kind.GROUP, Kind.STAGE, Kind.SKIPPED)), plans.BARRIER)


@click.command(cls=Verb)
@selecting.deployment_option
@selecting.run_options
@click.option("--all", "everything", is_flag=True, help="Groups, stages and barriers, too.")
def plan(deployment: str, everything: bool, **options: Any) -> None:
    """Show which tasks would run on which nodes, in which order, and why the rest would not; nothing is begun.

    A wave is what may run at the same time, as far as the order goes.
    """
    asked_for = selecting.asked(**options)
    with session.session() as opened:
        world = session.load(opened)
        prepared = planning.prepare(opened, world, deployment, asked_for)
    show(prepared, world, everything=everything)


def show(prepared: Prepared, world: World, *, everything: bool = False) -> bool:
    """Print a plan: one document. Gives whether anything would run."""
    document = plans.document(prepared.deployment, prepared.plan, prepared.tasks, everything=everything)
    if output.chosen() == "table":
        output.render(*_tables(document))
        for warning in prepared.warnings(world):
            output.say(f"note: {warning}")
        output.say(document.summary)
    elif output.chosen() == "name":
        for name in document.names:
            terminal.text(name)
    else:
        output.thing(document, prepared.deployment)
    return bool(document.runs)


def _tables(document: plans.PlanDocument) -> Iterator[RenderableType]:
    if document.runs:
        yield output.table(map(plans.words, document.runs), ("wave", "task", "type", "nodes"))
    if document.runs and document.reasons:
        yield ""
    if document.reasons:
        yield output.table(map(plans.reason_words, document.reasons), ("not_run", "instances", "reason"))


@click.command(cls=Verb)
@click.option(
    "--release",
    metavar="NAME",
    shell_complete=completion.releases,
    help="The tasks of this release's list, without nodes.",
)
@click.option(
    "--deployment",
    shell_complete=completion.deployments,
    help="The instances of a deployment's list, with their states in the newest run.",
)
@click.option("--tasks-only", is_flag=True, help="Of a deployment: one corner for each task, without nodes.")
@selecting.part_options
@click.option(
    "--parents-for",
    metavar="TASK",
    shell_complete=completion.tasks,
    help="Only this task, and all that comes before it.",
)
@click.option(
    "--remove",
    multiple=True,
    type=click.Choice(REMOVABLE),
    help="Without what is of this type; the rest keeps its order.",
)
@click.option("--tred", is_flag=True, help="Without edges that others imply.")
@drawings.options
def graph(
    release: str | None, deployment: str | None, tasks_only: bool, parents_for: str | None, remove: Sequence[str],
    tred: bool, form: str | None, file: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Draw which task waits for which.

    Groups are light blue, stages red, skipped tasks grey, others green; in a run what is waiting is white, ready yellow,
    running blue, done green, failed red, and not run orange. In a picture (--format svg) of more than 300 instances a box is
    a task, and says how many of its instances are in which state; with --parents-for it is always an instance.
    """
    owner = lists.owner(release, deployment)
    drawings.checked(form, file)
    part = selecting.asked(**options)
    of_nodes = (*part.nodes, *(each for each in (*part.tasks, *part.skip, *part.start, *part.end) if "/" in each))
    if (owner.release or tasks_only) and (of_nodes or part.selector):
        raise click.UsageError(f"{part.words}: chooses instances; give --deployment without --tasks-only")
    drawn = _filtered(_drawn(owner, tasks_only, part), parents_for, remove, tred)
    instead = "instances: a box is a task; with --parents-for it is an instance"
    whole = drawings.whole(form, len(drawn.corners), parents_for is not None, instead)
    texts = {
        "dot": lambda: drawing.dot(drawn),
        "svg": lambda: graphviz.dot(drawing.NAME, (drawing.picture if whole else drawing.collapsed)(drawn)),
        "mermaid": lambda: drawing.mermaid(drawn),
    }
    drawings.show(drawing.document(drawn), texts, form, file)


def _drawn(owner: Owner, tasks_only: bool, part: selecting.Asked) -> drawing.Drawing:
    with session.session() as opened:
        if owner.release or tasks_only:
            drawn = drawing.of_list(lists.load(opened, owner).tasks)
            return drawing.marked(drawn, part.selection) if part.selection else drawn
        assert owner.deployment is not None, "a list belongs to a release or to a deployment"
        prepared = planning.prepare(opened, session.load(opened), owner.deployment, part)
        return drawing.of_plan(prepared.plan, prepared.tasks, _states(opened, owner.deployment))


def _states(opened: Session, deployment: str) -> Mapping[str, str]:
    """How each instance stands in the newest run, by its name; empty where there is none."""
    from nodepool_ocb.store.tasks import runs

    newest = runs.pointer(opened, deployment)[0].newest
    found = running.read(opened, Key(deployment, newest)) if newest is not None else None
    return {row.name: row.state for row in found.instances} if found else {}


def _filtered(drawn: drawing.Drawing, parents_for: str | None, remove: Sequence[str], tred: bool) -> drawing.Drawing:
    if parents_for:
        drawn = drawing.above(drawn, parents_for)
    if remove:
        unwanted = frozenset(remove)
        skipped = str(Kind.SKIPPED) in unwanted
        drawn = drawing.without(
            drawn, lambda corner: corner.type in unwanted or (skipped and corner.skipped is not None)
        )
    return drawing.reduced(drawn) if tred else drawn
