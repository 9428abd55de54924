"""``nodepool-ocb status``: everything at a glance, errors first."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.operations.cluster.status import StatusOverview
from nodepool_ocb.operations.cluster.watching import StatusWatchLook
from nodepool_ocb.views import sections


@click.command(cls=Verb, operation=(StatusOverview, StatusWatchLook))
@click.option(
    "--watch", is_flag=True, help="The states of all noderoles, node by node, as they change; Ctrl-C ends it."
)
@click.option("--deployment", shell_complete=completion.deployments, help="With --watch: only noderoles of this one.")
@selector_option
def command(watch: bool, deployment: str | None, selector: str | None) -> None:
    """The state of the cluster: failures, moving noderoles, daemons and locks.

    --watch fills a terminal with nodes and their roles, those in ERROR first, and counts nodes that do not fit. In a pipe it
    prints a line at each change; with -o json an object a line, each with the noderoles that moved. With -l it follows the
    noderoles that the selector matches at that time.
    """
    if watch:
        _watch(deployment, selector)
    elif deployment is not None or selector is not None:
        raise click.UsageError("--deployment and -l go with --watch")
    else:
        _overview()


def _watch(deployment: str | None, selector: str | None) -> None:
    from nodepool_ocb.cli.pictures import matrix
    from nodepool_ocb.operations.performer import Performer

    used = performer()
    if isinstance(used, Performer):
        from nodepool_ocb.operations.scope import Scope

        matrix.watch(Scope(used, deployment, selector))
    else:
        matrix.watch(matrix.Polled(used, StatusWatchLook(deployment=deployment, selector=selector)))


def _overview() -> None:
    seen = perform(StatusOverview()).answer
    for note in sections.notes(seen):
        output.say(note)
    parts = [(each.title, output.table(each.rows, each.columns), "") for each in sections.sections(seen)]
    output.thing(seen, "status", *(part for three in parts for part in three))
