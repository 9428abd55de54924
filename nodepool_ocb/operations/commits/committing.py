"""A commit of noderoles: PROPOSED ones are handed to annealers, outdated ones run again in place, parents first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import commands
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, NodeRole, Set, State
from nodepool_ocb.operations.commits import outdated, reservations
from nodepool_ocb.operations.operation import Explained, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld

READS: Final = (ReadWorld, *outdated.READS, *reservations.READS)
WRITES: Final = ("noderole",)


class Committed(Explained, frozen=True, kw_only=True):
    """The answer of a commit: the sentences, and the noderoles that ran meanwhile."""

    running: tuple[str, ...] = ()  # at work when it was decided
    again: tuple[str, ...] = ()  # that run again in place
    chosen: tuple[str, ...] = ()  # that ``--wait`` waits for

    def left(self, *, waited: bool) -> tuple[str, ...]:
        """The sentences after a commit, or after its wait; ``left_after`` reads those about outdated noderoles again."""
        if self.running and not (waited and self.concerned):
            some = counted(len(self.running), "noderole runs", "noderoles run")
            ended = "nodepool-ocb noderole list --outdated, once it has ended"
            return (*self.after, f"{some} already; if it began before a change: {ended}")
        return self.after

    @property
    def concerned(self) -> frozenset[str]:
        """The noderoles that ran meanwhile: others may have begun with their former output."""
        return frozenset({*self.running, *self.again})


def commit(world: World, situation: Situation, vertices: Iterable[Vertex], force: bool) -> Steps[Committed]:
    """Raises Conflict if a rollout under way reserves one of them, unless ``force``."""
    bound = [vertex for vertex in vertices if vertex.record.task_run is None]  # a run of tasks commits its own
    proposed = [vertex for vertex in bound if vertex.record.state is State.PROPOSED]
    found = yield from outdated.find(world, bound)
    again = outdated.to_run_again(found)
    answer = Committed(
        running=tuple(vertex.name for vertex in bound if _runs(vertex)),
        again=tuple(dict.fromkeys([*moved(situation.written, refreshed=True), *(vertex.name for vertex in again)])),
        after=tuple(outdated.left(found)),
    )
    if situation.call.dry_run:
        explanations = yield from outdated.explanations(world, found, again)
        answer = msgspec.structs.replace(answer, explanations=tuple(explanations))
    events = {Event.COMMIT: proposed, Event.REFRESH: again}
    changes = commands.apply_all(world, events, situation.now, situation.by)
    yield from reservations.guarded(world, [*proposed, *again], changes, force)
    return answer


def _runs(vertex: Vertex) -> bool:
    """True for a run under way that is not a check."""
    return vertex.record.state is State.TRANSITION and vertex.record.check is None


def moved(written: Iterable[Change], *, refreshed: bool = False) -> list[str]:
    """The noderoles that a call has moved; with ``refreshed``, only those that it made run again."""
    found = []
    for change in written:
        if isinstance(change, Set) and isinstance(change.data, NodeRole) and (change.data.refresh or not refreshed):
            fqdn, role = change.path.split("/")[3], change.path.split("/")[5]
            found.append(paths.noderole_name(role, fqdn))
    return found


def outdated_after(concerned: frozenset[str]) -> Steps[list[str]]:
    """After a wait: sentences about the noderoles that are outdated because the concerned ones ran."""
    world = yield from ReadWorld()
    found = yield from outdated.sentences(world, lambda vertex: vertex.name in concerned)
    return found
