"""``nodepool-ocb status``: everything at a glance, errors first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.kit.selecting import selector_option
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.rollouts import reading
from nodepool_ocb.operations.tasks import runs as taskruns
from nodepool_ocb.views import sections, status

if TYPE_CHECKING:
    from nodepool_ocb.model.journal import Webhook
    from nodepool_ocb.store.client.session import Session

LOOKED_AT: Final = 1000  # noderoles, whose attributes and runs are looked at


@click.command(cls=Verb)
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
    from nodepool_ocb.operations.scope import Scope

    matrix.watch(Scope(performer(), deployment, selector))


def _overview() -> None:
    from nodepool_ocb.store import daemons, quarantine
    from nodepool_ocb.store.world.load import load_world

    quarantined: dict[str, str] = {}
    with session.session() as opened:
        opened.sync()
        world = load_world(opened)
        images = imaging.load(opened, quarantined)
        builders = imaging.builders(opened, quarantined)
        count = sum(1 for _ in world.vertices())
        unlooked = count if count > LOOKED_AT else 0
        quarantined |= world.unreadable
        quarantined |= quarantine.at_a_glance(opened, imaging.lock_paths(images), nodes=not unlooked)
        rollouts = performer().read(reading.rows(), opened)
        pauses = daemons.pauses(opened)
        webhook = _webhook(opened, quarantined)
        task_runs = performer().read(taskruns.rows(None), opened)
        changed = performer().read(outdated.find(world, world.vertices()), opened).vertices
    seen = status.overview(
        world, images, rollouts, builders, quarantined, changed, task_runs, pauses, webhook, unlooked, now=time.time()
    )
    for note in sections.notes(seen):
        output.say(note)
    parts = [(each.title, output.table(each.rows, each.columns), "") for each in sections.sections(seen)]
    output.thing(seen, "status", *(part for three in parts for part in three))


def _webhook(opened: Session, quarantined: dict[str, str]) -> Webhook | None:
    from nodepool_ocb.store import journal

    try:
        return journal.cursor(opened)[0]
    except Invalid as unreadable:
        quarantined[paths.WEBHOOK] = str(unreadable).removeprefix(f"{paths.WEBHOOK}: ")
        return None
