"""``nodepool-ocb status``: everything at a glance, errors first."""

from __future__ import annotations

import click

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.noderoles import outdated
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.cli.tasks import running
from nodepool_ocb.views import sections, status


@click.command(cls=Verb)
def command() -> None:
    """Everything at a glance: what failed, what moves, who works."""
    from nodepool_ocb.store import quarantine, tree

    quarantined: dict[str, str] = {}
    with session.session() as opened:
        opened.sync()
        world = tree.load(opened)
        images = imaging.load(opened, quarantined)
        builders = imaging.builders(opened, quarantined)
        quarantined |= world.unreadable | quarantine.of_rollouts(opened) | quarantine.of_task_runs(opened)
        quarantined |= quarantine.of_locks(opened, imaging.lock_paths(images))
        rollouts = rolling.rows(opened)
        task_runs = running.rows(opened, None)
        changed = outdated.find(opened, world, world.vertices()).vertices
    seen = status.overview(world, images, rollouts, builders, quarantined, changed, task_runs)
    for note in sections.notes(seen):
        output.say(note)
    parts = [(each.title, output.table(each.rows, each.columns), "") for each in sections.sections(seen)]
    output.thing(seen, "status", *(part for three in parts for part in three))
