"""Waiting until noderoles are ACTIVE, or cannot become ACTIVE any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import InError, NotFound, OcbError
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import following
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.progress import AwaitedRow, WaitProgress, awaited, held_up, of_noderoles, tally

Choose = Callable[[World], Iterable[str]]  # the noderoles to wait for, as ROLE@FQDN


class WaitStatus:
    """One look at the noderoles of a wait."""

    def __init__(self, world: World, names: Iterable[str], progress: WaitProgress, *, changed: bool) -> None:
        self._world = world
        self.names = tuple(names)
        self.progress = progress
        self.changed = changed  # since the look before

    def tally(self) -> Tally:
        """The noderoles counted by state."""
        return tally(self._world, self.names)

    def rows(self, names: Iterable[str]) -> list[AwaitedRow]:
        """The rows of noderoles."""
        return list(awaited(self._world, names))

    def held_up(self) -> list[str]:
        """Sentences about waits that end only by a person, or by the return of a machine."""
        return list(held_up(self._world, self.progress.waiting, time.time()))

    def deployments(self, names: Iterable[str]) -> set[str]:
        """The deployments of noderoles."""
        return {vertex.record.deployment for name in names if (vertex := self._world.vertex(name))}


def standings(
    performer: Performer, choose: Choose, deadline: float | None, tick_seconds: float | None = None
) -> Iterator[WaitStatus]:
    """A look now, after every change, and at every tick; raises TimedOut at the deadline (monotonic).

    ``choose`` is asked again with every change; a noderole that was chosen stays chosen.
    """
    known: dict[str, None] = {}
    progress: WaitProgress | None = None
    for world, touched in following.worlds(performer, deadline, tick_seconds):
        changed = bool(touched) or progress is None
        if changed or progress is None:
            known |= dict.fromkeys(choose(world))
            progress = of_noderoles(world, known)
        yield WaitStatus(world, known, progress, changed=changed)


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


def checks(
    performer: Performer, names: Sequence[str], deadline: float | None, tick_seconds: float | None = None
) -> Iterator[CheckStatus]:
    """A look now, after every change, and at every tick.

    Raises TimedOut at the deadline (monotonic), or NotFound if a noderole was deleted.
    """
    for world, _ in following.worlds(performer, deadline, tick_seconds):
        found = [world.vertex(name) for name in names]
        if None in found:
            gone = next(name for name in names if world.vertex(name) is None)
            raise NotFound(f"{gone} was deleted; see: nodepool-ocb history {gone}")
        vertices = [vertex for vertex in found if vertex is not None]
        waiting = [vertex.name for vertex in vertices if vertex.record.check is not None]
        yield CheckStatus(waiting, _tally(vertices), held_up(world, waiting, time.time()))


def _tally(vertices: Sequence[Vertex]) -> Tally:
    """The ended, running and waiting checks, counted."""
    left = [vertex.record for vertex in vertices if vertex.record.check is not None]
    running = sum(record.state is State.TRANSITION for record in left)
    return Tally("checked", {"checked": len(vertices) - len(left), "running": running, "waiting": len(left) - running})
