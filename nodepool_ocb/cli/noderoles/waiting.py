"""Waiting until noderoles are ACTIVE: woken by ZooKeeper's watches, and over at once when the answer is known."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.follow import Following
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import InError, NotFound, OcbError, TimedOut
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.progress import WaitDocument, WaitProgress, awaited, held_up, of_noderoles

if TYPE_CHECKING:
    from nodepool_ocb.store.cache import Cache
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.touched import Touched

Choose = Callable[[World], Iterable[str]]


def worlds(deadline: float | None) -> Iterator[tuple[World, Touched]]:
    """The world at once and after every change, with what changed. Raises TimedOut at the deadline (monotonic)."""
    world = World()

    def make(opened: Session, wake: Callable[[], None]) -> Cache:
        from nodepool_ocb.store.cache import Cache

        return Cache(opened, world, wake)

    return ((world, touched) for touched in Following(deadline).changes(make))


def wait(choose: Choose, timeout_seconds: float | None, changes: tuple[ChangeRow, ...] | UnsetType = UNSET) -> None:
    """Wait until the chosen noderoles are ACTIVE, and print how it ended: one document.

    Raises InError, NotFound (deleted meanwhile), or TimedOut. ``choose`` is asked again with every change.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: tuple[World, WaitProgress] | None = None
    ended: OcbError | None = None
    try:
        for world, now in _standings(worlds(deadline), choose):
            last = world, now
            if now.outcome:
                ended = _error(now)
                break
    except TimedOut as error:
        ended = error
    _tell(last, ended, changes)
    if ended is not None:
        raise ended


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
    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
    if choose is None or dry_run:
        session.report(changes, dry_run, explanations)
    else:
        wait(choose, timeout_seconds, changes=session.change_rows(changes))


def _standings(following: Iterable[tuple[World, Touched]], choose: Choose) -> Iterator[tuple[World, WaitProgress]]:
    """With a live display of them on a terminal."""
    with ExitStack() as stack:
        show = _live(stack) if sys.stderr.isatty() else None
        known: dict[str, None] = {}
        said: set[str] = set()
        for world, _ in following:
            known |= dict.fromkeys(choose(world))
            now = of_noderoles(world, known)
            if show:
                show(world, now)
            for line in held_up(world, now.waiting, time.time()):
                if line not in said:
                    said.add(line)
                    output.say(line)
            yield world, now


def _live(stack: ExitStack) -> Callable[[World, WaitProgress], None]:
    from rich.console import Group
    from rich.live import Live
    from rich.progress import Progress

    progress = Progress(console=output.console(sys.stderr))
    task = progress.add_task("ACTIVE", total=None)
    live = stack.enter_context(Live(progress, console=progress.console, transient=True, refresh_per_second=8))

    def show(world: World, now: WaitProgress) -> None:
        progress.update(task, total=len(now.ready) + len(now.waiting), completed=len(now.ready))
        live.update(Group(progress, output.table(awaited(world, now.waiting[:12]), ("noderole", "state", "since"))))

    return show


def _error(now: WaitProgress) -> OcbError | None:
    if now.outcome == "deleted":
        return NotFound(f"{now.gone[0]} was deleted")
    return InError("\n".join(now.stuck)) if now.outcome == "error" else None


def _tell(
    last: tuple[World, WaitProgress] | None, ended: OcbError | None, changes: tuple[ChangeRow, ...] | UnsetType
) -> None:
    if last is None:
        return
    world, now = last
    names = sorted([*now.ready, *now.waiting, *now.gone])
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    rows = tuple(awaited(world, names))
    if output.chosen() == "name":
        output.things(rows, ("noderole",), key="noderole")
    else:
        table = output.table(rows, ("noderole", "state", "since", "reason"))
        output.thing(WaitDocument(outcome=outcome, stuck=now.stuck, noderoles=rows, changes=changes), "", table)
