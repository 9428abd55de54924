"""Waiting until noderoles are ACTIVE: woken by ZooKeeper's watches, and over at once when the answer is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec import UNSET, UnsetType

from nodepool_ocb.cli.kit import journal, output, session
from nodepool_ocb.cli.kit.follow import Following
from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import InError, NotFound, OcbError, TimedOut
from nodepool_ocb.model.records import State
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.pictures.matrix import RANK
from nodepool_ocb.views.pictures.tally import sentence
from nodepool_ocb.views.progress import AwaitedRow, WaitDocument, WaitProgress, awaited, held_up, of_noderoles, tally

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.world.cache import Cache
    from nodepool_ocb.store.world.changeset import ChangeSet

LIVE: Final = 12  # noderoles below the count, on a terminal
FEW: Final = 4  # that are named to somebody who interrupts
MOST: Final = 12  # that are named at the end

Choose = Callable[[World], Iterable[str]]


def worlds(deadline: float | None, tick_seconds: float | None = None) -> Iterator[tuple[World, ChangeSet]]:
    """The world at once, after every change, and at every tick, with what changed.

    Raises TimedOut at the deadline (monotonic).
    """
    world = World()

    def make(opened: Session, wake: Callable[[], None]) -> Cache:
        from nodepool_ocb.store.world.cache import Cache

        return Cache(opened, world, wake)

    return ((world, touched) for touched in Following(deadline).changes(make, tick_seconds))


def wait(
    choose: Choose,
    timeout_seconds: float | None,
    changes: tuple[ChangeRow, ...] | UnsetType = UNSET,
    again: str | None = None,
) -> None:
    """Wait until the chosen noderoles are ACTIVE, and print how it ended: one document.

    Raises InError, NotFound (deleted meanwhile), or TimedOut. ``choose`` is asked again with every change. ``again`` are
    the words of the command that waits again.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    settled = bool(asked("settled"))
    last: tuple[World, WaitProgress] | None = None
    ended: OcbError | None = None
    begun = time.monotonic()
    try:
        with waits.going_on("what was committed", lambda: again or _again(last)):
            for world, now in _standings(worlds(deadline, waits.TICK_SECONDS), choose):
                last = world, now
                if now.settled if settled else now.outcome:
                    ended = _error(now)
                    break
    except TimedOut as error:
        ended = error
    _tell(last, ended, changes, time.monotonic() - begun)
    if isinstance(ended, TimedOut) and last is not None:
        say_what_holds_up(last[0], last[1].waiting)
    if isinstance(ended, InError) and last is not None and last[1].failed:
        _say_next_step(*last, settled=settled)
    if ended is not None:
        raise ended


def say_what_holds_up(world: World, names: Iterable[str]) -> None:
    """Say again, to somebody whose time is up, what only a person or a machine's return can end."""
    for each in held_up(world, names, time.time()):
        output.say(each)


def _say_next_step(world: World, now: WaitProgress, *, settled: bool) -> None:
    deployments = {vertex.record.deployment for name in now.failed if (vertex := world.vertex(name))}
    of = f" --deployment {deployments.pop()}" if len(deployments) == 1 else ""
    retry = f"--failed{of}" if len(now.failed) > 1 else now.failed[0]
    if now.moving and not settled:
        output.say(f"{counted(len(now.moving), 'noderole')} may still become ACTIVE; --settled waits for all of them")
    output.say(
        f"look: nodepool-ocb noderole log {now.failed[0]}; mend the cause, then: nodepool-ocb noderole retry {retry}"
    )


def _again(last: tuple[World, WaitProgress] | None) -> str:
    names = [*last[1].ready, *last[1].waiting] if last else []
    return f"noderole wait {' '.join(names)}" if 0 < len(names) <= FEW else "status --watch"


def change_and_wait(
    decide: session.Decide,
    choose: Choose | None,
    timeout_seconds: float | None,
    dry_run: bool = False,
    explanations: Sequence[str] = (),
) -> None:
    """Write what ``decide`` gives; then print that, or wait for the noderoles of ``choose`` and print how it ended.

    ``explanations``, which ``decide`` may fill, say why of what a dry run would change.
    """
    if asked("settled") and (choose is None or dry_run):
        raise click.UsageError("--settled goes with --wait")
    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
    if choose is None or dry_run:
        session.report(changes, dry_run, explanations)
    else:
        wait(choose, timeout_seconds, changes=journal.rows(changes))


def _standings(following: Iterable[tuple[World, ChangeSet]], choose: Choose) -> Iterator[tuple[World, WaitProgress]]:
    """Whenever something changed; how far it is is told meanwhile."""
    known: dict[str, None] = {}
    now: WaitProgress | None = None
    with waits.Progress() as progress:
        for world, touched in following:
            if touched or now is None:
                known |= dict.fromkeys(choose(world))
                now = of_noderoles(world, known)
                progress.note(held_up(world, now.waiting, time.time()))
            progress.tell(tally(world, known), *_table(progress.width, world, now))
            if touched or now.outcome:
                yield world, now


def _table(width: int | None, world: World, now: WaitProgress) -> list[RenderableType]:
    """What moves and what failed, before what waits."""
    if width is None or not now.waiting:
        return []
    rows = sorted(awaited(world, now.waiting), key=lambda row: RANK.get(row.state, 0) if row.state else 0)
    return [output.picture(rows[:LIVE], ("noderole", "state", "since", "reason"), ("since",), width)]


def _error(now: WaitProgress) -> OcbError | None:
    if now.outcome == "deleted":
        return NotFound(f"{now.gone[0]} was deleted")
    return InError("\n".join(now.causes)) if now.outcome == "error" else None


def _tell(
    last: tuple[World, WaitProgress] | None,
    ended: OcbError | None,
    changes: tuple[ChangeRow, ...] | UnsetType,
    seconds: float,
) -> None:
    if last is None:
        return
    world, now = last
    names = sorted([*now.ready, *now.waiting, *now.gone])
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    rows = tuple(awaited(world, names))
    if output.chosen() == "name":
        output.things(rows, ("noderole",), key="noderole")
        return
    document = WaitDocument(outcome=outcome, stuck=now.stuck, noderoles=rows, changes=changes)
    lacking = rows if outcome == "timeout" else [row for row in rows if row.state in (State.ERROR, None)]
    shown = _failed(lacking) if output.chosen() == "table" else []
    output.thing(document, "", *shown, sentence(tally(world, names), seconds))


def _failed(rows: Sequence[AwaitedRow]) -> list[RenderableType]:
    """What did not become ACTIVE, what is in ERROR first; the rest is counted."""
    short = [row for row in rows if row.state is not State.ACTIVE]
    short.sort(key=lambda row: (RANK[row.state] if row.state else -1, row.noderole))
    more = [f"... and {len(short) - MOST:,} more; -o json has all"] if len(short) > MOST else []
    return [output.table(short[:MOST], ("noderole", "state", "since", "reason")), *more] if short else []
