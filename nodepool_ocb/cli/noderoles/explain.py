"""``noderole explain`` and ``noderole log``: why it does not move, and what its runs said."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.names import noderole_of
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.noderoles import outdated, runs
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, Run, State
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.views import explanation as explaining
from nodepool_ocb.views.explanation import FailedRun, RolloutPointer, SkippedDocument, line
from nodepool_ocb.views.noderoles import RunOutput, ended
from nodepool_ocb.views.rollouts.rows import Key

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

name_argument = click.argument("name", metavar="ROLE@FQDN", shell_complete=completion.noderoles)


@click.command(cls=Verb)
@name_argument
def explain(name: str) -> None:
    """Why a noderole does not run: every reason, what holds it back, since when, and what to do."""
    with session.session() as opened:
        world = session.load(opened)
        now = opened.now()
        if skipped := _skipped(opened, world, name):
            output.text(skipped, explaining.skipped_words(skipped))
            return
        vertex = noderole_of(world, name)
        if vertex.record.state is not State.ACTIVE or vertex.record.refresh:
            world.spoiled |= runs.spoiled(opened, vertex)
        explanation = explaining.explain(world, vertex, now, _rollouts(opened, line(world, vertex.record.deployment)))
        failed = explanation.failed
        last = runs.recorded(opened, failed)[-1:] if failed else []
        changed = outdated.rows(opened, world, outdated.find(opened, world, [vertex]))
    run = FailedRun(last[0][0], failed.name, last[0][1]) if failed and last else None
    shown = explaining.document(explanation, run, next(iter(changed), None))
    output.text(shown, explaining.words(shown, now))


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


# -- log --


@click.command(cls=Verb)
@name_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--run", help="Which run; the default is the newest.")
def log(name: str, follow: bool, run: str | None) -> None:
    """The output of a noderole's newest run: the whole, where its file is on this machine; else its end."""
    if follow and output.chosen() != "table":
        raise click.UsageError("-f gives text as it comes; leave -o away")
    with session.session() as opened:
        world = session.load(opened)
        vertex = noderole_of(world, name)
        known = dict(runs.recorded(opened, vertex))
        wanted = _wanted(vertex, known, run)
        if follow and wanted not in known:
            _follow(opened, vertex, wanted, _file(world, vertex, wanted, None))
            return
        _print(name, wanted, known.get(wanted), _file(world, vertex, wanted, known.get(wanted)))


def _wanted(vertex: Vertex, known: Mapping[str, Run], run: str | None) -> str:
    """The run that was asked for, that is going on, or that was the newest; raises NotFound."""
    running = vertex.record.run if vertex.record.state is State.TRANSITION else None
    wanted = run or running or next(reversed(list(known)), None)
    if wanted is None:
        raise NotFound(f"{vertex.name} has not run yet; nodepool-ocb noderole explain {vertex.name}")
    if wanted not in known and wanted != running:
        raise NotFound(f"{vertex.name} has no run {run}; it has: {', '.join(known) or 'none'}")
    return wanted


def _file(world: World, vertex: Vertex, run: str, record: Run | None) -> tuple[str | None, Path | None]:
    """Where the whole output is, as HOST:FILE, and the file if it is on this host."""
    where = record.log if record else None
    folder = session.settings().annealer.log_dir
    claim = vertex.node.claim
    daemon = world.annealers.get(claim.annealer) if claim else None
    if where is None and record is None and daemon and folder:
        where = f"{daemon.host}:{Path(folder, vertex.node.name, f'{vertex.role}-{run}.log')}"
    host, _, file = (where or "").partition(":")
    here = session.on_this_host(host) and os.path.isfile(file)
    return where, Path(file) if here else None


def _print(name: str, run: str, record: Run | None, where: tuple[str | None, Path | None]) -> None:
    path, file = where
    text = file.read_text(errors="replace") if file else (record.tail if record else None) or ""
    document = RunOutput(noderole=name, run=run, record=record or msgspec.UNSET, log=path, output=text)
    output.say(_about(name, run, record, where))
    output.text(document, text)


def _about(name: str, run: str, record: Run | None, where: tuple[str | None, Path | None]) -> str:
    path, file = where
    how = ended(record) if record else "still running"
    if path:
        whole = f"{'whole output' if file else 'the end; whole output'} in {path}"
    elif record is None:
        whole = "no annealer follows it now"
    else:
        whole = "only the end is kept" if record.tail else "no output is kept"
    return f"{name}, run {run}: {how}; {whole}"


def _follow(opened: Session, vertex: Vertex, run: str, where: tuple[str | None, Path | None]) -> None:
    """Print the file as it grows; where it is elsewhere, the tail when the run has ended."""
    from nodepool_ocb.store.client import codec

    output.say(_about(vertex.name, run, None, where))
    moved, path = threading.Event(), paths.noderole(vertex.role, vertex.node.name)
    opened.watch(path, lambda *_: moved.set())
    moved.set()  # it may have ended before the watch was set
    _, file = where
    with file.open(errors="replace") if file else open(os.devnull) as stream:
        while True:
            if moved.is_set():
                moved.clear()
                znode = opened.get(path)
                record = codec.decode(NodeRole, znode) if znode else None
                ended = record is None or record.run != run or record.state is not State.TRANSITION
            terminal.text(stream.read(), end=False)
            if ended:
                break
            moved.wait(0.2 if file else 30.0)  # a file tells nobody that it grew
    record_of = dict(runs.recorded(opened, vertex)).get(run)
    if file is None and record_of is not None:
        terminal.text(record_of.tail or "")
    output.say(_about(vertex.name, run, record_of, where))
