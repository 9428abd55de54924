"""``tasks plan`` and ``tasks graph``: the plan of a run that is not begun."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodepool_ocb.cli.kit import completion, output, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform, usage
from nodepool_ocb.cli.pictures import drawings
from nodepool_ocb.cli.tasks import options
from nodepool_ocb.operations.tasks import drawing as operations
from nodepool_ocb.operations.tasks.drawing import REMOVABLE, TasksGraph
from nodepool_ocb.operations.tasks.planning import PlannedTasks, TasksPlan
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.tasks import drawing, plans

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.command(cls=Verb, operation=TasksPlan)
@options.one_deployment_option
@options.run_options
@click.option("--all", "everything", is_flag=True, help="Groups, stages and barriers, too.")
def plan(deployment: str, everything: bool, **given: Any) -> None:
    """Show which tasks would run on which nodes, in which order, and why the rest would not; nothing is begun.

    A wave has the tasks that may run at the same time by their order.
    """
    operation = TasksPlan(deployment=deployment, choice=options.choice(**given), everything=everything)
    show(perform(operation).answer)


def show(planned: PlannedTasks) -> None:
    """Print a plan: one document."""
    document = planned.document
    if output.chosen() == "table":
        output.render(*_tables(document))
        for warning in planned.warnings:
            output.say(f"note: {warning}")
        output.say(document.summary)
    elif output.chosen() == "name":
        for name in document.names:
            terminal.text(name)
    else:
        output.thing(document, document.deployment)


def _tables(document: plans.TaskPlanDocument) -> Iterator[RenderableType]:
    if document.runs:
        yield output.table(map(plans.words, document.runs), ("wave", "task", "type", "nodes"))
    if document.runs and document.reasons:
        yield ""
    if document.reasons:
        yield output.table(map(plans.reason_words, document.reasons), ("not_run", "instances", "reason"))


@click.command(cls=Verb, operation=TasksGraph)
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
@options.part_options
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
    help="Without tasks of this type; the rest keeps its order.",
)
@click.option("--tred", is_flag=True, help="Without edges that others imply.")
@drawings.options
def graph(
    release: str | None, deployment: str | None, tasks_only: bool, parents_for: str | None, remove: Sequence[str],
    tred: bool, form: str | None, file: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Draw the dependencies between tasks.

    Groups are light blue, stages red, skipped tasks grey, others green. In a run, waiting tasks are white, ready ones yellow,
    running ones blue, done ones green, failed ones red, and tasks that were not run orange. In a picture (--format svg) of more
    than 300 instances a box is a task, with the number of its instances in each state. With --parents-for a box is always an
    instance.
    """
    operation = TasksGraph(
        release=release,
        deployment=deployment,
        tasks_only=tasks_only,
        choice=options.choice(**given),
        parents_for=parents_for,
        remove=tuple(remove),
        tred=tred,
    )
    with usage():
        operations.refuse_contradictions(release, deployment, operation.choice, tasks_only=tasks_only)
    drawings.checked(form, file)
    drawn = perform(operation).answer
    instead = "instances: a box is a task; with --parents-for it is an instance"
    whole = drawings.whole(form, len(drawn.corners), parents_for is not None, instead)
    texts = {
        "dot": lambda: drawing.dot(drawn),
        "svg": lambda: graphviz.dot(drawing.NAME, (drawing.picture if whole else drawing.collapsed)(drawn)),
        "mermaid": lambda: drawing.mermaid(drawn),
    }
    drawings.show(drawing.document(drawn), texts, form, file)
