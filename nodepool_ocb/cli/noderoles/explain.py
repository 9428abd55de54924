"""``noderole explain``: why it does not move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.selecting import STDIN, Noderoles, noderoles_argument, selector_option
from nodepool_ocb.cli.noderoles import outdated, runs
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.names import noderole_of
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.views import explanation as explaining
from nodepool_ocb.views.explanation import FailedRun, RolloutPointer, SkippedDocument
from nodepool_ocb.views.rollouts.rows import Key
from nodepool_ocb.views.view import View

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


@click.command(cls=Verb)
@noderoles_argument
@selector_option
def explain(names: Sequence[str], selector: str | None) -> None:
    """Why a noderole does not run: every reason, what holds it back, since when, and what to do.

    Of more than one, each after the other; with -o json and yaml a list.
    """
    single = selector is None and len(names) == 1 and names[0] != STDIN  # what a run of tasks skipped has no noderole
    meant = None if single else Noderoles(names, selector)
    with session.session() as opened:
        world = session.load(opened)
        if meant is None:
            output.text(*_explained(opened, world, names[0]))
            return
        chosen = meant.of(opened, world)
        output.texts([_explained(opened, world, vertex.name) for vertex in chosen])


def _explained(opened: Session, world: World, name: str) -> tuple[View, str]:
    """The explanation, and as words; raises NotFound."""
    if skipped := _skipped(opened, world, name):
        return skipped, explaining.skipped_words(skipped)
    vertex, now = noderole_of(world, name), opened.now()
    if vertex.record.state is not State.ACTIVE or vertex.record.refresh:
        world.spoiled |= runs.spoiled(opened, vertex)
    explanation = explaining.explain(world, vertex, now, _rollouts(opened, world.line(vertex.record.deployment)))
    failed = explanation.failed
    last = runs.recorded(opened, failed)[-1:] if failed else []
    changed = outdated.rows(opened, world, outdated.find(opened, world, [vertex]))
    run = FailedRun(last[0][0], failed.name, last[0][1]) if failed and last else None
    shown = explaining.document(explanation, run, next(iter(changed), None))
    return shown, explaining.words(shown, now)


def _skipped(opened: Session, world: World, name: str) -> SkippedDocument | None:
    """Why the newest run of tasks does not do it; None where it does, or has nothing to do with it."""
    from nodepool_ocb.store.tasks import runs as taskruns
    from nodepool_ocb.tasks.runs import naming
    from nodepool_ocb.tasks.runs.records import Table

    role, _, fqdn = name.partition("@")
    view = world.nodes.get(fqdn)
    deployment = view.record.deployment if view is not None and view.record is not None else ""
    stored = world.task_runs.get(deployment)
    newest = stored.record.newest if stored is not None else None
    vertex = world.vertex(name)
    if newest is None or (vertex is not None and vertex.record.task_run in (None, newest)):
        return None
    for task, node, why in taskruns.table(opened, deployment, newest, Table.SKIPPED):
        if node == fqdn and naming.role(deployment, task) == role:
            return SkippedDocument(name, f"{deployment}/{newest}", why, vertex.record.state if vertex else None)
    return None


def _rollouts(opened: Session, deployments: Iterable[str]) -> RolloutPointer:
    """The newest rollout of each deployment that has one; says which cannot be read."""
    from nodepool_ocb.store import rollouts

    found: dict[str, tuple[str, Rollout]] = {}
    for deployment in deployments:
        try:
            newest = rollouts.newest(opened, deployment)
            read = rollouts.read(opened, deployment, newest) if newest is not None else None
        except Invalid as wrong:
            output.say(f"warning: a rollout is left out: {wrong}")
            continue
        if newest is not None and read is not None:
            found[deployment] = str(Key(deployment, newest)), read[0]
    return found
