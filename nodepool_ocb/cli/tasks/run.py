"""``tasks run``: a task list is planned, and carried out from now on."""

from __future__ import annotations

from typing import Any

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb, plan_options, timeout_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.tasks import options, waiting
from nodepool_ocb.cli.tasks.plan import show
from nodepool_ocb.operations.tasks.running import TasksRun
from nodepool_ocb.views.tasks import runs as shown


@click.command(cls=Verb, operation=TasksRun)
@options.one_deployment_option
@options.run_options
@options.facts_file_option
@click.option(
    "--dry-run", is_flag=True, help="Show the tasks that would run, and begin nothing; exit 10 if there are any."
)
@plan_options
@click.option("--all", "everything", is_flag=True, help="With --dry-run: groups, stages and barriers, too.")
@click.option("--wait", is_flag=True, help="Wait until it is over; then print how it ended.")
@timeout_option
def run(
    deployment: str, facts_file: str | None, dry_run: bool, everything: bool, wait: bool, timeout_seconds: float | None,
    **given: Any,
) -> None:  # fmt: skip
    """Run the task list of a deployment on its nodes, or a part of it.

    Refused while another run of the deployment is under way, and where nothing would run.
    """
    choice = options.choice(**given)
    operation = TasksRun(deployment=deployment, choice=choice, facts_file=facts_file, everything=everything)
    begun = perform(operation, dry_run=dry_run).answer
    if begun.plan is not None:
        show(begun.plan)
        raise click.exceptions.Exit(10 if begun.plan.document.runs else 0)
    assert begun.key is not None, "a run that began has a key"
    assert begun.row is not None, "a run that began has a row"
    if wait:
        output.say(f"tasks run {begun.key} begins")
        waiting.wait(begun.key, timeout_seconds)
    else:
        output.thing(begun.row, str(begun.key), output.fields(shown.words(begun.row), but=("started",)))
        output.say(f"to look on: nodepool-ocb tasks wait {begun.key}, or: nodepool-ocb tasks history {begun.key}")
