"""Verbs that apply one event to noderoles: commit, propose, refresh, retry, cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from nodepool_ocb.engine import claim, commands, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import committing, outdated, reservations
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import (
    AwaitedNoderoles,
    Explained,
    Lookup,
    Near,
    Operation,
    Right,
    Situation,
    Steps,
    near_noderoles,
)
from nodepool_ocb.operations.reads.world import ReadWorld

#: The states in which an event asks for nothing more.
DONE: Final = {Event.COMMIT: frozenset(State) - {State.PROPOSED}, Event.PROPOSE: frozenset({State.PROPOSED})}

#: The advice for a noderole that does not run, so that it cannot be cancelled.
INSTEAD_OF_CANCEL: Final = {
    State.PROPOSED: "it was not committed, and does not run before: nodepool-ocb noderole explain {}",
    State.BLOCKED: "to take back a noderole that has not begun: nodepool-ocb noderole propose {}",
    State.TODO: "to take back a noderole that has not begun: nodepool-ocb noderole propose {}",
    State.ACTIVE: "it is done: nodepool-ocb noderole log {}",
    State.ERROR: "it has ended, and failed: nodepool-ocb noderole explain {}",
}


class NoderolesChosen(Explained, frozen=True, kw_only=True):
    """The answer of a verb that moves noderoles."""

    chosen: tuple[str, ...] = ()  # ROLE@FQDN


class NoderoleAct(Operation[NoderolesChosen], frozen=True, kw_only=True):
    """The base of these verbs."""

    noun = "noderole"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (ReadWorld, selection.ResolveNoderoles, *reservations.READS)
    writes = ("noderole",)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None

    def chosen(self, world: World) -> Steps[list[Vertex]]:
        """The noderoles of the call; raises NotFound."""
        found = yield from selection.noderoles(world, self.noderoles, self.selector)
        return found

    def awaited(self, answer: NoderolesChosen) -> AwaitedNoderoles:
        return AwaitedNoderoles(noderoles=answer.chosen)


class NoderoleCommit(Operation[Committed], frozen=True, kw_only=True):
    """Commit PROPOSED noderoles, and run outdated ones again in place.

    Refused without ``force`` if a rollout under way reserves one of them.
    """

    noun = "noderole"
    verb = "commit"
    right = Right.OPERATOR
    reads = (*committing.READS, selection.ResolveNoderoles)
    writes = committing.WRITES

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None
    force: bool = False

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[Committed]:
        world = yield from ReadWorld()
        chosen = yield from selection.noderoles(world, self.noderoles, self.selector)
        commands.refuse_tasks(chosen)
        if self.selector is None:
            refuse_unmeant(chosen, Event.COMMIT)
        deploymentroles.refuse_noderoles(world, chosen)
        unreadable.refuse_commit(world, chosen)
        answer = yield from committing.commit(world, situation, chosen, self.force)
        return replace(answer, chosen=_names(chosen, self.noderoles, self.selector))

    def awaited(self, answer: Committed) -> AwaitedNoderoles:
        return AwaitedNoderoles(noderoles=answer.chosen)


class NoderoleCommitOutdated(Operation[list[str]], frozen=True, kw_only=True):
    """After the wait for a commit: sentences about noderoles that are outdated because others ran meanwhile."""

    noun = "noderole"
    verb = "commit"
    right = Right.VIEWER
    reads = (ReadWorld, *outdated.READS)

    concerned: frozenset[str]  # the noderoles that ran meanwhile

    def decide(self, situation: Situation) -> Steps[list[str]]:  # noqa: ARG002
        return (yield from committing.outdated_after(self.concerned))


class NoderolePropose(NoderoleAct, frozen=True, kw_only=True):
    """Set noderoles back to PROPOSED, to change them; noderoles that require them wait."""

    verb = "propose"

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[NoderolesChosen]:
        world = yield from ReadWorld()
        chosen = yield from self.chosen(world)
        changed = yield from _apply(world, situation, chosen, Event.PROPOSE, self.selector)
        names = tuple(vertex.name for vertex in chosen)
        if changed and situation.call.dry_run:
            return NoderolesChosen(chosen=names)
        after = yield from ReadWorld()
        again = selection.noderoles_again(after, names, resolved=self.selector is not None)
        sentences: list[str] = []
        for deployment in sorted({vertex.record.deployment for vertex in again}):
            effect = "a node fails if its noderoles are set back to PROPOSED while they are sent"
            found = yield from reservations.warnings(after, deployment, effect)
            sentences += found
        return NoderolesChosen(chosen=names, after=tuple(sentences))


class NoderoleRefresh(NoderoleAct, frozen=True, kw_only=True):
    """Run ACTIVE noderoles again in place; their children go on."""

    verb = "refresh"

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[NoderolesChosen]:
        world = yield from ReadWorld()
        chosen = yield from self.chosen(world)
        yield from _apply(world, situation, chosen, Event.REFRESH, self.selector)
        return NoderolesChosen(chosen=_names(chosen, self.noderoles, self.selector))


def _apply(
    world: World, situation: Situation, chosen: Sequence[Vertex], event: Event, selector: str | None
) -> Steps[bool]:
    """True if anything changes."""
    commands.refuse_tasks(chosen)
    if selector is None:
        refuse_unmeant(chosen, event)
    changed = False
    for transaction in commands.apply_to(world, chosen, event, situation.now, situation.by):
        yield transaction
        changed = True
    return changed


def refuse_unmeant(chosen: Iterable[Vertex], event: Event) -> None:
    """Raises Conflict for a noderole in a state for which the event is not meant."""
    for vertex in chosen:
        state, meant = vertex.record.state, commands.MEANT_FOR[event]
        if not commands.meant_for(vertex.record, event) and state not in DONE.get(event, ()):
            hint = f"see: nodepool-ocb noderole explain {vertex.name}"
            raise Conflict(f"{vertex.name} is {state}; {event.lower()} is for {' or '.join(sorted(meant))}; {hint}")


class NoderoleRetry(NoderoleAct, frozen=True, kw_only=True):
    """Run failed noderoles again; one that waits for its next attempt runs now.

    Refused without ``force`` if a rollout under way reserves one of them.
    """

    verb = "retry"

    failed: bool = False  # all that are in ERROR, in place of names
    deployment: str | None = None  # of these, with ``failed``
    force: bool = False

    def __post_init__(self) -> None:
        if (bool(self.noderoles) or self.selector is not None) == self.failed or (self.deployment and not self.failed):
            raise Invalid("give noderoles, or a selector, or `failed` with or without a deployment")

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[NoderolesChosen]:
        world = yield from ReadWorld()
        if self.deployment is not None:
            deployment_of(world, self.deployment)
        if self.failed:
            chosen = situation.own(world, _failed(world, self.deployment))
        else:
            chosen = yield from self.chosen(world)
        commands.refuse_tasks(chosen)
        names = tuple(vertex.name for vertex in chosen)
        now = situation.now
        pausing = [vertex for vertex in chosen if vertex.record.state is State.TODO and vertex.record.not_before > now]
        if self.selector is not None:
            chosen = [vertex for vertex in chosen if vertex.record.state is State.ERROR or vertex in pausing]
        moved_before = committing.moved(situation.written)
        for vertex in chosen if self.selector is None else ():
            if vertex.record.state is not State.ERROR and vertex not in pausing and vertex.name not in moved_before:
                hint = f"see: nodepool-ocb noderole explain {vertex.name}"
                raise Conflict(f"{vertex.name} is {vertex.record.state}; only failed noderoles can be retried; {hint}")
        hurried = ((v, v.record.amended(not_before=0.0, by=situation.by)) for v in pausing)
        yield from limits.parts(claim.writes(vertex, record) for vertex, record in hurried)
        broken = [vertex for vertex in chosen if vertex.record.state is State.ERROR]
        moved = commands.apply_to(world, chosen, Event.RETRY, now, situation.by)
        yield from reservations.guarded(world, broken, moved, self.force)
        return NoderolesChosen(chosen=tuple(dict.fromkeys([*moved_before, *names])))


def _failed(world: World, deployment: str | None) -> list[Vertex]:
    failed = (v for v in world.vertices() if v.record.state is State.ERROR and v.record.task_run is None)
    return [vertex for vertex in failed if deployment in (None, vertex.record.deployment)]


class NoderoleCancel(NoderoleAct, frozen=True, kw_only=True):
    """End runs on the machines; the noderoles are then in ERROR, and may be retried."""

    verb = "cancel"

    reason: str = "cancelled by a person"  # in their records

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[NoderolesChosen]:
        world = yield from ReadWorld()
        chosen = yield from self.chosen(world)
        for vertex in chosen if self.selector is None else ():
            if vertex.record.state is not State.TRANSITION:
                hint = INSTEAD_OF_CANCEL[vertex.record.state].format(vertex.name)
                raise Conflict(
                    f"{vertex.name} is {vertex.record.state}; only running noderoles can be cancelled; {hint}"
                )
        reason = f"{self.reason} ({situation.by})"
        yield from commands.apply_to(world, chosen, Event.CANCEL, situation.now, situation.by, reason)
        return NoderolesChosen(chosen=tuple(vertex.name for vertex in chosen))


def _names(chosen: Sequence[Vertex], named: Sequence[str], selector: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(named)) if selector is None else tuple(vertex.name for vertex in chosen)
