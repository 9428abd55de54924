"""Waiting until noderoles are ACTIVE: woken by ZooKeeper's watches, and over at once when the answer is known.

Known is: all are ACTIVE; one is gone; or one cannot become ACTIVE before somebody acts: it, or what it waits for, is in
ERROR, PROPOSED, or in a deployment that is PROPOSED. A machine that is not alive may come back: waiting goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.follow import Following
from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import InError, NotFound, OcbError, TimedOut
from nodepool_ocb.model.records import DeploymentState, Json, State

if TYPE_CHECKING:
    from nodepool_ocb.store.cache import Cache
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.tree import Touched

Choose = Callable[[World], Iterable[str]]


class WaitProgress(msgspec.Struct, frozen=True):
    """How far the awaited noderoles are."""

    ready: tuple[str, ...]
    waiting: tuple[str, ...]
    gone: tuple[str, ...]
    stuck: tuple[str, ...]  # sentences: what is in the way and stays there until somebody acts

    @property
    def outcome(self) -> str | None:
        """active, deleted or error; None while it is open."""
        if self.gone:
            return "deleted"
        return "error" if self.stuck else None if self.waiting else "active"


def standing(world: World, names: Iterable[str]) -> WaitProgress:
    """Pure; costs in proportion to the noderoles and what is above them."""
    ready, waiting, gone = [], [], []
    for name in names:
        vertex = world.vertex(name)
        if world.hides(name):
            waiting.append(name)
        elif vertex is None:
            gone.append(name)
        elif vertex.record.state is State.ACTIVE and not vertex.record.refresh:
            ready.append(name)
        else:
            waiting.append(name)
    above = _unsatisfied(vertex for name in waiting if (vertex := world.vertex(name)))
    stuck = [sentence for vertex in above if (sentence := _stuck(world, vertex))]
    return WaitProgress(tuple(ready), tuple(waiting), tuple(gone), tuple(sorted(stuck)))


def _unsatisfied(vertices: Iterable[Vertex]) -> Iterator[Vertex]:
    queue = list(dict.fromkeys(vertices))
    seen = set(queue)
    for vertex in queue:  # grows while it is walked
        yield vertex
        fresh = [parent for parent in vertex.parents if parent not in seen and not satisfied(parent.record)]
        seen.update(fresh)
        queue += fresh


def _stuck(world: World, vertex: Vertex) -> str | None:
    record = vertex.record
    if record.state is State.ERROR:
        return f"{vertex.name} is in ERROR: {record.reason or 'no reason was recorded'}"
    if record.state is State.PROPOSED:
        return f"{vertex.name} is PROPOSED; nodepool-ocb noderole commit {vertex.name}"
    deployment = world.deployments.get(record.deployment)
    if deployment is None or deployment.record.state is DeploymentState.PROPOSED:
        return f"{vertex.name} is in deployment {record.deployment}, which is not COMMITTED"
    return None


def worlds(deadline: float | None) -> Iterator[tuple[World, Touched]]:
    """The world at once and after every change, with what changed. Raises TimedOut at the deadline (monotonic)."""
    world = World()

    def make(opened: Session, wake: Callable[[], None]) -> Cache:
        from nodepool_ocb.store.cache import Cache

        return Cache(opened, world, wake)

    return ((world, touched) for touched in Following(deadline).changes(make))


def wait(choose: Choose, timeout_seconds: float | None, **more: Json) -> None:
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
    _tell(last, ended, more)
    if ended is not None:
        raise ended


def change_and_wait(
    decide: session.Decide, choose: Choose | None, timeout_seconds: float | None, dry_run: bool = False
) -> None:
    """Write what ``decide`` gives; then print that, or wait for the noderoles of ``choose`` and print how it ended."""
    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
    if choose is None or dry_run:
        session.report(changes, dry_run)
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
            now = standing(world, known)
            if show:
                show(world, now)
            for line in held_up(world, now.waiting):
                if line not in said:
                    said.add(line)
                    output.say(line)
            yield world, now


def held_up(world: World, names: Iterable[str]) -> list[str]:
    """What only a person or a machine's return can end: one sentence for each node, jig or missing annealer, ten at most."""
    from nodepool_ocb.engine.readiness import Code, why_not

    lasting = {Code.NODE_NOT_ALIVE, Code.NODE_NOT_AVAILABLE, Code.JIG_INACTIVE, Code.NO_ANNEALER, Code.UNREADABLE}
    found: dict[tuple[Code, str], str] = {}
    for name in names:
        vertex = world.vertex(name)
        for reason in why_not(world, vertex, time.time()) if vertex else ():
            if reason.code in lasting and len(found) < 10:
                found.setdefault((reason.code, reason.subject), f"waiting: {reason.text}; {reason.advice}")
    return list(found.values())


def _live(stack: ExitStack) -> Callable[[World, WaitProgress], None]:
    from rich.console import Group
    from rich.live import Live
    from rich.progress import Progress

    progress = Progress(console=output.console(sys.stderr))
    task = progress.add_task("ACTIVE", total=None)
    live = stack.enter_context(Live(progress, console=progress.console, transient=True, refresh_per_second=8))

    def show(world: World, now: WaitProgress) -> None:
        progress.update(task, total=len(now.ready) + len(now.waiting), completed=len(now.ready))
        live.update(Group(progress, output.table(rows(world, now.waiting[:12]), ("noderole", "state", "since"))))

    return show


def rows(world: World, names: Iterable[str]) -> list[dict[str, Json]]:
    """Each noderole with its state; None for one that is gone."""
    made: list[dict[str, Json]] = []
    for name in names:
        vertex = world.vertex(name)
        record = vertex.record if vertex else None
        made.append(
            {
                "noderole": name,
                "state": str(record.state) if record else None,
                "since": record.since if record else None,
                "reason": record.reason if record else None,
            }
        )
    return made


def _error(now: WaitProgress) -> OcbError | None:
    if now.outcome == "deleted":
        return NotFound(f"{now.gone[0]} was deleted")
    return InError("\n".join(now.stuck)) if now.outcome == "error" else None


def _tell(last: tuple[World, WaitProgress] | None, ended: OcbError | None, more: dict[str, Json]) -> None:
    if last is None:
        return
    world, now = last
    names = sorted([*now.ready, *now.waiting, *now.gone])
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    table = rows(world, names)
    document = {"outcome": outcome, "stuck": list(now.stuck), "noderoles": table, **more}
    if output.chosen() == "name":
        output.things(table, ("noderole",), key="noderole")
    else:
        output.thing(document, "", output.table(table, ("noderole", "state", "since", "reason")))
