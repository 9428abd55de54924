"""Commits, for verbs that are not operations yet; ``operations.commits.committing`` has the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.commits import committing
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.operation import Situation
from nodepool_ocb.operations.performer import Reader

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


class Commit:
    """A commit of noderoles; ``explanations`` has the reasons of those that run again, in a dry run."""

    def __init__(self, force: bool, dry_run: bool) -> None:
        self.explanations: list[str] = []
        self._force, self._dry_run = force, dry_run
        self._committed: Committed | None = None
        self._written: list[Change] = []

    def transactions(self, opened: Session, world: World, vertices: Iterable[Vertex]) -> Iterator[Sequence[Change]]:
        """Raises Conflict if a rollout under way reserves one of them, unless that is forced."""
        used = performer()
        situation = Situation(
            call=replace(used.call, dry_run=self._dry_run),
            now=opened.now(),
            local_now=0.0,
            settings=used.settings(),
            written=tuple(self._written),
        )
        made = Reader(used, opened, {}).transactions(committing.commit(world, situation, vertices, self._force))
        while True:
            try:
                transaction = next(made)
            except StopIteration as ended:
                self._committed = ended.value
                self.explanations[:] = ended.value.explanations
                return
            yield transaction
            self._written += transaction

    def say_what_may_be_left(self, waited: bool) -> None:
        say_what_is_left(self._committed, waited=waited)


def say_what_is_left(committed: Committed | None, *, waited: bool) -> None:
    """After a commit: outdated noderoles that it left, and those that became outdated while others ran."""
    if committed is None:
        return
    for sentence in committed.left(waited=waited):
        output.say(sentence)
    if waited and committed.concerned:
        with session.session() as opened:
            for sentence in performer().read(committing.outdated_after(committed.concerned), opened):
                output.say(sentence)
