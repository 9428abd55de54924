"""``nodepool-ocb tasks``: task lists, as Fuel has them."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.cli.tasks import exchange, lists
from nodepool_ocb.cli.tasks.check import check
from nodepool_ocb.cli.tasks.exchange import download, sync, upload
from nodepool_ocb.cli.tasks.history import history, runs, stop, wait
from nodepool_ocb.cli.tasks.plan import graph, plan
from nodepool_ocb.cli.tasks.run import run
from nodepool_ocb.views.tasks import lists as shown


@click.group(cls=Noun)
def command() -> None:
    """Task lists: check and store them, plan, run them on a deployment's nodes, look on."""


for verb in (check, upload, download, sync, plan, graph, run, runs, history, wait, stop):
    command.add_command(verb)


@command.command("list")
def list_() -> None:
    """Every release and deployment that has a list."""
    with session.session() as opened:
        opened.sync()
        rows = lists.rows(opened)
    output.things(rows, ("kind", "name", "base", "tasks", "files", "settings", "since", "by"))


@command.command()
@click.argument("task", shell_complete=completion.tasks)
@exchange.release_option
@exchange.deployment_option
def show(task: str, release: str | None, deployment: str | None) -> None:
    """One task as it counts: where it comes from, what it does, and which tasks are just before and after it."""
    owner = lists.owner(release, deployment)
    with session.session() as opened:
        opened.sync()
        found = lists.load(opened, owner)
    output.thing(shown.task(found.tasks, task), task)
