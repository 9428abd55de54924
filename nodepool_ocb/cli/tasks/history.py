"""``tasks runs``, ``history``, ``stop`` and ``wait``: runs looked at, and ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, timeout_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.tasks import waiting
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.operations.tasks.runs import TasksHistory, TasksRuns, TasksWait, TasksWaitLook
from nodepool_ocb.operations.tasks.stopping import TasksStop
from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks import runs as shown

run_argument = click.argument("run", metavar="DEPLOYMENT[/RUN]", shell_complete=completion.task_runs)
RUN_COLUMNS: Final = (
    "run",
    "state",
    "what",
    "started",
    "took",
    "by",
    "nodes",
    "instances",
    "counts",
    "driver",
    "rollout",
    "reason",
)


@click.command(cls=Verb, operation=TasksRuns)
@click.argument("deployment", required=False, shell_complete=completion.deployments)
def runs(deployment: str | None) -> None:
    """The newest ten runs of a deployment, or of every one, with their states and their drivers."""
    found = perform(TasksRuns(deployment=deployment)).answer
    output.things(found, RUN_COLUMNS, key="run", shown=map(shown.words, found))


@click.command(cls=Verb, operation=TasksHistory)
@run_argument
@click.option(
    "--task", "tasks", multiple=True, shell_complete=completion.tasks, help="Only this task; may be given again."
)
@click.option("--node", "nodes", multiple=True, shell_complete=completion.nodes, help="Only on this node.")
@click.option("--failed", is_flag=True, help="Only tasks that failed or were not run.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, with a header.")
def history(run: str, tasks: Sequence[str], nodes: Sequence[str], failed: bool, as_csv: bool) -> None:
    """The result of each task on each node, in the order in which they began.

    In a run under way, the present state of each. Without RUN it is the deployment's newest run.
    """
    found = perform(TasksHistory(run=run, tasks=tuple(tasks), nodes=tuple(nodes), failed=failed)).answer
    rows = found.instances
    if as_csv:
        output.text(found, histories.as_csv(rows))
    elif output.chosen() == "table":
        output.render(output.table(map(histories.words, rows), histories.COLUMNS))
        counts = ", ".join(f"{count} {state}" for state, count in histories.counted(row.state for row in rows).items())
        output.say(
            f"tasks run {found.row.run}: {found.row.state}: {counted(len(rows), 'instance')}: {counts or 'none'}"
        )
    elif output.chosen() == "name":
        output.things([histories.NamedInstance(name=row.name) for row in rows], ("name",))
    else:
        output.thing(found, found.row.run)


@click.command(cls=Verb, operation=TasksStop)
@run_argument
@click.option("--now", is_flag=True, help="Also end running tasks; else they go on to their end.")
@dry_run_option
def stop(run: str, now: bool, dry_run: bool) -> None:
    """Begin no more tasks. Running tasks go on to their end, or are ended with --now; the others are not run.

    With the name of a deployment, a run with an unfinished preparation is ended, too: its noderoles are free then.
    """
    done = perform(TasksStop(run=run, now=now), dry_run=dry_run)
    if dry_run:
        reporting.performed(done)
        return
    for sentence in done.answer.notes:
        output.say(sentence)
    if done.answer.row is not None:
        output.thing(done.answer.row, done.answer.row.run, waiting.fields(done.answer.row))


@click.command(cls=Verb, operation=(TasksWait, TasksWaitLook))
@run_argument
@timeout_option
def wait(run: str, timeout_seconds: float | None) -> None:
    """Wait until a run is over; then print its state and the tasks that did not succeed. Exits with 6 unless all did."""
    waiting.wait(perform(TasksWait(run=run)).answer, timeout_seconds)
