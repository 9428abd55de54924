"""``nodepool-ocb tasks``: task lists, as Fuel has them."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.cli.tasks import options
from nodepool_ocb.cli.tasks.check import check
from nodepool_ocb.cli.tasks.exchange import download, list_, sync, upload
from nodepool_ocb.cli.tasks.history import history, runs, stop, wait
from nodepool_ocb.cli.tasks.plan import graph, plan
from nodepool_ocb.cli.tasks.run import run
from nodepool_ocb.operations.tasks.lists import TasksShow


@click.group(cls=Noun)
def command() -> None:
    """Task lists: check and store them, plan, run them on a deployment's nodes, look on."""


for verb in (check, upload, download, list_, sync, plan, graph, run, runs, history, wait, stop):
    command.add_command(verb)


@command.command(operation=TasksShow)
@click.argument("task", shell_complete=completion.tasks)
@options.release_option
@options.deployment_option
def show(task: str, release: str | None, deployment: str | None) -> None:
    """One task as it counts: its origin, its action, and the tasks just before and after it."""
    output.thing(perform(TasksShow(task=task, release=release, deployment=deployment)).answer, task)
