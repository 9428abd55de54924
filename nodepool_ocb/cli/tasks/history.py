"""``tasks runs``, ``history``, ``stop`` and ``wait``: runs looked at, and ended."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, timeout_option
from nodepool_ocb.cli.tasks import running, waiting
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks import runs as shown

run_argument = click.argument("run", metavar="DEPLOYMENT[/RUN]", shell_complete=completion.task_runs)
RUN_COLUMNS = (
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


@click.command(cls=Verb)
@click.argument("deployment", required=False, shell_complete=completion.deployments)
def runs(deployment: str | None) -> None:
    """The newest ten runs of a deployment, or of every one, with their states and their drivers."""
    with session.session() as opened:
        opened.sync()
        found = running.rows(opened, deployment)
    output.things(found, RUN_COLUMNS, key="run", shown=map(shown.words, found))


@click.command(cls=Verb)
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
    with session.session() as opened:
        found = running.load(opened, running.find(opened, run))
    rows = histories.chosen(found.instances, tasks, nodes, failed=failed)
    if as_csv:
        output.text(shown.RunDocument(found.row, tuple(rows)), histories.as_csv(rows))
        return
    if output.chosen() == "table":
        output.render(output.table(map(histories.words, rows), running.COLUMNS))
        counts = ", ".join(f"{count} {state}" for state, count in histories.counted(row.state for row in rows).items())
        output.say(f"tasks run {found.key}: {found.head.state}: {counted(len(rows), 'instance')}: {counts or 'none'}")
    elif output.chosen() == "name":
        output.things([histories.NamedInstance(name=row.name) for row in rows], ("name",))
    else:
        output.thing(shown.RunDocument(found.row, tuple(rows)), str(found.key))


@click.command(cls=Verb, writes=True)
@run_argument
@click.option("--now", is_flag=True, help="Also end running tasks; else they go on to their end.")
@dry_run_option
def stop(run: str, now: bool, dry_run: bool) -> None:
    """Begin no more tasks. Running tasks go on to their end, or are ended with --now; the others are not run.

    With the name of a deployment, a run with an unfinished preparation is ended, too: its noderoles are free then.
    """
    from nodepool_ocb.store.tasks import beginning
    from nodepool_ocb.store.tasks import runs as store

    with session.session() as opened:
        cleared = beginning.clear(opened, run) if "/" not in run and not dry_run else None
        if cleared is not None:
            output.say(f"the preparation of tasks run {run}/{cleared} broke off; nothing of it will run")
            return
        key = running.find(opened, run)
        if dry_run:
            _, would = store.stopping(opened, *key, session.me(), now)
            session.report(session.decided(opened, lambda: [would], dry_run), dry_run)
            return
        store.stop(opened, *key, session.me(), now)
        found = running.load(opened, key)
    output.thing(found.row, str(key), output.fields(shown.words(found.row), but=("started",)))


@click.command(cls=Verb)
@run_argument
@timeout_option
def wait(run: str, timeout_seconds: float | None) -> None:
    """Wait until a run is over; then print its state and the tasks that did not succeed. Exits with 6 unless all did."""
    with session.session() as opened:
        key = running.find(opened, run)
        running.load(opened, key)
    waiting.wait(key, timeout_seconds)
