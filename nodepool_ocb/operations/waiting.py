"""Waiting until noderoles are ACTIVE, or cannot become ACTIVE any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import InError, NotFound, OcbError
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import following
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.progress import AwaitedRow, WaitProgress, awaited, held_up, of_noderoles, tally

Choose = Callable[[World], Iterable[str]]  # the noderoles to wait for, as ROLE@FQDN


class WaitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the noderoles of a wait."""

    progress: WaitProgress
    tally: Tally  # by state
    rows: tuple[AwaitedRow, ...]  # by name
    held_up: tuple[str, ...]  # sentences about waits that end only by a person, or by the return of a machine
    deployments: tuple[str, ...]  # of those that failed
    changed: bool = True  # since the look before

    @property
    def names(self) -> tuple[str, ...]:
        """The noderoles, as ROLE@FQDN."""
        return tuple(row.noderole for row in self.rows)


def look(world: World, names: Iterable[str], now: float) -> WaitStatus:
    """The noderoles of these names as they are."""
    known = sorted(names)
    progress = of_noderoles(world, known)
    failed = (vertex for name in progress.failed if (vertex := world.vertex(name)))
    return WaitStatus(
        progress=progress,
        tally=tally(world, known),
        rows=tuple(awaited(world, known)),
        held_up=tuple(held_up(world, progress.waiting, now)),
        deployments=tuple(sorted({vertex.record.deployment for vertex in failed})),
    )


def looks(
    performer: Performer, choose: Choose, deadline: float | None, tick_seconds: float | None = None
) -> Iterator[WaitStatus]:
    """A look now, after every change, and at every tick; raises TimedOut at the deadline (monotonic).

    ``choose`` is asked again with every change; a noderole that was chosen stays chosen.
    """
    known: dict[str, None] = {}
    last: WaitStatus | None = None
    for world, touched in following.worlds(performer, deadline, tick_seconds):
        if touched or last is None:
            known |= dict.fromkeys(choose(world))
            last = look(world, known, time.time())
            yield last
        else:
            yield replace(last, changed=False)


def error(progress: WaitProgress) -> OcbError | None:
    """The error with which a wait ends; None if all are ACTIVE, or the wait goes on."""
    if progress.outcome == "deleted":
        return NotFound(f"{progress.gone[0]} was deleted; see: nodepool-ocb history {progress.gone[0]}")
    return InError("\n".join(progress.causes)) if progress.outcome == "error" else None


class CheckStatus(msgspec.Struct, frozen=True):
    """One look at checks that were asked for."""

    waiting: list[str]  # noderoles with checks that have not ended
    tally: Tally
    held_up: list[str]  # sentences about waits that end only by a person, or by the return of a machine


def check_look(world: World, names: Sequence[str], now: float) -> CheckStatus:
    """The checks of these noderoles as they are; raises NotFound if one was deleted."""
    found = [world.vertex(name) for name in names]
    if None in found:
        gone = next(name for name in names if world.vertex(name) is None)
        raise NotFound(f"{gone} was deleted; see: nodepool-ocb history {gone}")
    vertices = [vertex for vertex in found if vertex is not None]
    left = [vertex.name for vertex in vertices if vertex.record.check is not None]
    return CheckStatus(left, _tally(vertices), held_up(world, left, now))


def check_looks(
    performer: Performer, names: Sequence[str], deadline: float | None, tick_seconds: float | None = None
) -> Iterator[CheckStatus]:
    """A look now, after every change, and at every tick.

    Raises TimedOut at the deadline (monotonic), or NotFound if a noderole was deleted.
    """
    for world, _ in following.worlds(performer, deadline, tick_seconds):
        yield check_look(world, names, time.time())


def _tally(vertices: Sequence[Vertex]) -> Tally:
    """The ended, running and waiting checks, counted."""
    left = [vertex.record for vertex in vertices if vertex.record.check is not None]
    running = sum(record.state is State.TRANSITION for record in left)
    return Tally("checked", {"checked": len(vertices) - len(left), "running": running, "waiting": len(left) - running})
