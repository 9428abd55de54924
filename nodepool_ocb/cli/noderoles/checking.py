"""``noderole check`` and ``noderole drift``: whether machines are still as their noderoles left them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, timeout_option
from nodepool_ocb.cli.kit.selecting import Noderoles, noderoles_argument, selector_option
from nodepool_ocb.cli.noderoles import runs, waiting
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine import commands, drift
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, NotFound, TimedOut
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.model.records import Change, State
from nodepool_ocb.views.drift import found as shown
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.progress import held_up

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

DRIFTED_EXIT: Final = 10  # as of every command that looks and finds changes
UNKNOWN_EXIT: Final = 1
NAMED: Final = 5  # noderoles in a sentence
COLUMNS: Final = ("noderole", "drift", "checked", "difference")


@click.command(cls=Verb, writes=True)
@noderoles_argument
@selector_option
@click.option(
    "--wait", is_flag=True, help="Wait for what they find; exit 10 where any has drifted, 1 where one is unknown."
)
@timeout_option
@dry_run_option
def check(names: Sequence[str], selector: str | None, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Ask machines whether they are still as ACTIVE noderoles left them; nothing is changed.

    Each is claimed and run as any other, by its role's check (docs/drift.md). Of what a selector means, those are left out
    that cannot be checked now.
    """
    meant = Noderoles(names, selector)
    asked: dict[str, int] = {}

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        chosen = _checkable(world, meant.of(opened, world), meant.scope)
        asked.update({vertex.name: drift.before(vertex.record) for vertex in chosen})
        fresh = [vertex for vertex in chosen if vertex.record.check is None]
        yield from commands.apply_to(world, fresh, Event.CHECK, opened.now(), session.me())

    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
    if wait and not dry_run:
        _tell(_awaited(asked, timeout_seconds), everything=not meant.scope)
    else:
        session.report(changes, dry_run)


def _checkable(world: World, chosen: list[Vertex], scope: bool) -> list[Vertex]:
    """Raises Conflict where one that is named cannot be checked, or of a selector's none can."""
    commands.refuse_tasks(chosen)
    refusals = {vertex: why for vertex in chosen if (why := drift.refusal(world, vertex))}
    can = [vertex for vertex in chosen if vertex not in refusals]
    if refusals and (not scope or not can):
        raise Conflict("\n".join(list(dict.fromkeys(refusals.values()))[:NAMED]))
    if refusals:
        output.say(f"{counted(len(refusals), 'noderole')} cannot be checked now")
    return can


def _awaited(asked: Mapping[str, int], timeout_seconds: float | None) -> list[shown.DriftRow]:
    """What the checks found, once all have ended; raises TimedOut, or NotFound where one was deleted.

    ``asked``: the epoch that the check of each is above. What it found is told from its run where the noderole ran again since.
    """
    for vertices in _standings(list(asked), timeout_seconds):
        if all(vertex.record.check is None for vertex in vertices):
            with session.session() as opened:
                rows = _rows(opened, vertices)
                gone = {row.noderole for row in rows if row.run is None}
                newest = {
                    each: runs.newest_check(opened, each, asked[each.name]) for each in vertices if each.name in gone
                }
                since = {vertex.name: shown.of_run(vertex, *found) for vertex, found in newest.items() if found}
                return [since.get(row.noderole, row) for row in rows]
    raise AssertionError("what is waited for ends by an exception")


def _standings(names: Sequence[str], timeout_seconds: float | None) -> Iterator[list[Vertex]]:
    """The noderoles at once and after every change, while how far it is and what holds it up is told.

    Raises TimedOut, or NotFound where one was deleted.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last, waits_for = World(), list[str]()
    try:
        with waits.going_on("the check", lambda: "noderole drift"), waits.Progress() as progress:
            for last, _ in waiting.worlds(deadline, waits.TICK_SECONDS):
                found = [last.vertex(name) for name in names]
                if None in found:
                    raise NotFound(f"{next(name for name in names if last.vertex(name) is None)} was deleted")
                vertices = [vertex for vertex in found if vertex is not None]
                waits_for = [vertex.name for vertex in vertices if vertex.record.check is not None]
                progress.note(held_up(last, waits_for, time.time()))
                progress.tell(_tally(vertices))
                yield vertices
    except TimedOut:
        waiting.say_what_holds_up(last, waits_for)
        raise


def _tally(vertices: Sequence[Vertex]) -> Tally:
    """How many are checked, and how many checks run."""
    left = [vertex.record for vertex in vertices if vertex.record.check is not None]
    running = sum(record.state is State.TRANSITION for record in left)
    return Tally("checked", {"checked": len(vertices) - len(left), "running": running, "waiting": len(left) - running})


def _rows(opened: Session, vertices: Iterable[Vertex]) -> list[shown.DriftRow]:
    chosen = sorted(vertices, key=lambda each: each.name)
    return [shown.row(vertex, run) for vertex, run in zip(chosen, runs.checks(opened, chosen), strict=True)]


def _tell(rows: list[shown.DriftRow], everything: bool) -> None:
    """``everything``: the table has what is in sync, too."""
    document = shown.asked(rows)
    listed = [row for row in rows if everything or row.drift != Drift.IN_SYNC]
    if output.chosen() == "name":
        output.things(rows, ("noderole",), key="noderole")
    elif listed or output.chosen() != "table":
        output.thing(document, "", output.table(listed, COLUMNS))
    output.say(f"{document.in_sync} in sync, {document.drifted} drifted, {document.unknown} unknown")
    if document.drifted:
        drifted = [row.noderole for row in rows if row.drift == Drift.DRIFTED]
        output.say(f"to run again what has drifted: nodepool-ocb noderole refresh {some(drifted, NAMED)}")
        raise click.exceptions.Exit(DRIFTED_EXIT)
    if document.unknown:
        raise click.exceptions.Exit(UNKNOWN_EXIT)


@click.command("drift", cls=Verb)
@noderoles_argument
@selector_option
@click.option("--all", "everything", is_flag=True, help="Also what is in sync, and what was never checked.")
def list_drift(names: Sequence[str], selector: str | None, everything: bool) -> None:
    """What the newest checks found: what has drifted, and what could not be told; of one noderole the whole difference."""
    meant = Noderoles(names, selector) if names or selector is not None else None
    with session.session() as opened:
        world = session.load(opened)
        chosen = list(world.vertices()) if meant is None else meant.of(opened, world)
        rows = _rows(opened, chosen if names else [each for each in chosen if _wanted(world, each, everything)])
    if len(names) == 1 and len(rows) == 1 and output.chosen() == "table":
        output.text(rows[0], "\n".join([f"{rows[0].noderole}: {rows[0].drift}", *filter(None, [rows[0].output])]))
    else:
        output.things(rows, COLUMNS, key="noderole")
        if not rows and meant is None:
            output.say(_nothing(world))


def _nothing(world: World) -> str:
    """That nothing has drifted, and how much is known of that."""
    able = [each for each in world.vertices() if _wanted(world, each, everything=True)]
    looked = sum(each.record.drift is not None for each in able)
    return f"nothing has drifted; of {counted(len(able), 'noderole')} that can be checked, {looked} were"


def _wanted(world: World, vertex: Vertex, everything: bool) -> bool:
    stored = world.roles.get(vertex.role)
    if vertex.record.state is not State.ACTIVE:
        return False
    if everything:
        return stored is not None and drift.checkable(stored.record)
    return vertex.record.drift in (Drift.DRIFTED, Drift.UNKNOWN)
