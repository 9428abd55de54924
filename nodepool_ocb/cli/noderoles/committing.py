"""What every commit does: annealers get what is PROPOSED, and what is outdated runs again in place, parents first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.noderoles import outdated
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import commands
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Change, State

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


class Commit:
    """A commit of noderoles; ``explanations`` says of those that run again why, where somebody asked only for that."""

    def __init__(self, force: bool, dry_run: bool) -> None:
        self.explanations: list[str] = []
        self._force, self._dry_run = force, dry_run
        self._running: set[str] = set()
        self._again: set[str] = set()
        self._found: outdated.Outdated | None = None

    def transactions(self, opened: Session, world: World, vertices: Iterable[Vertex]) -> Iterator[Sequence[Change]]:
        """Raises Conflict where a rollout under way sends any of them in its turn, unless that is forced."""
        bound = [vertex for vertex in vertices if vertex.record.task_run is None]  # a run of tasks commits its own
        proposed = [vertex for vertex in bound if vertex.record.state is State.PROPOSED]
        found = outdated.find(opened, world, bound)
        again = outdated.to_run_again(found)
        self._found = found
        self._running |= {vertex.name for vertex in bound if _runs(vertex)}
        self._again |= {vertex.name for vertex in again}
        if self._dry_run:
            self.explanations[:] = outdated.explanations(opened, world, found, again)
        now, by = opened.now(), session.me()
        moved = chain(
            commands.apply_to(world, proposed, Event.COMMIT, now, by),
            commands.apply_to(world, again, Event.REFRESH, now, by),
        )
        return turns.kept(opened, world, [*proposed, *again], moved, self._force)

    def say_what_may_be_left(self, waited: bool) -> None:
        """What runs already may have begun with what changed since; after the wait, what is outdated all the same."""
        if self._found is not None:
            outdated.say_what_is_left(self._found)
        if waited and (self._running or self._again):
            concerned = self._running | self._again
            with session.session() as opened:
                world = session.load(opened)
                for sentence in outdated.sentences(opened, world, lambda vertex: vertex.name in concerned):
                    output.say(sentence)
        elif self._running:
            some = counted(len(self._running), "noderole runs", "noderoles run")
            output.say(
                f"{some} already; if it began before a change: nodepool-ocb noderole list --outdated, once it has ended"
            )


def _runs(vertex: Vertex) -> bool:
    """Whether it is at work; a check is none."""
    return vertex.record.state is State.TRANSITION and vertex.record.check is None
