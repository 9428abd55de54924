"""What a rollout under way commits in its turn is not moved by hand, unless somebody insists (``--force``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Change
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import NodeState, Rollout
from nodepool_ocb.views.explanation import RolloutPointer
from nodepool_ocb.views.rollouts.rows import Key

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

force_option = click.option("--force", is_flag=True, help="Also what a rollout under way commits in its turn.")


def kept(
    opened: Session, world: World, vertices: Sequence[Vertex], transactions: Iterable[Sequence[Change]], force: bool
) -> Iterator[Sequence[Change]]:
    """The transactions that move these noderoles, each held to it that no rollout begins or goes on meanwhile.

    Raises Conflict, before the first, where a rollout under way commits any of them in its turn. With ``force`` they are
    given as they are.
    """
    if force:
        yield from transactions
        return
    refuse(opened, world, vertices, "; --force moves them out of turn")
    held = structure.unchanged(world)
    for transaction in transactions:
        yield [held, *transaction]


def refuse(opened: Session, world: World, vertices: Sequence[Vertex], way_out: str = "") -> None:
    """Raises Conflict where a rollout under way commits any of these noderoles in its turn."""
    under_way = _under_way(opened, world, {vertex.record.deployment for vertex in vertices})
    for name, found in owned(world, under_way, vertices).items():
        names = some(sorted(vertex.name for vertex in found))
        raise Conflict(
            f"rollout {name} is under way and sends {names} in their turn: leave them to it, or end it:"
            f" nodepool-ocb rollout cancel {name}{way_out}"
        )


def warn(opened: Session, world: World, deployment: str, what: str) -> None:
    """Say what a change in this deployment means where a rollout of it, or of one above, is under way."""
    for name, _ in _under_way(opened, world, {deployment}).values():
        output.say(f"note: rollout {name} is under way: {what}")


def owned(world: World, rollouts: RolloutPointer, vertices: Iterable[Vertex]) -> dict[str, list[Vertex]]:
    """The noderoles that a rollout still has to do with, by its name: in a phase that their node has not passed."""
    found: dict[str, list[Vertex]] = {}
    own = {deployment: _Own(world, deployment, rollout) for deployment, (_, rollout) in rollouts.items()}
    for vertex in vertices:
        for deployment in world.line(vertex.record.deployment):
            if deployment in own and own[deployment].has(vertex):
                found.setdefault(rollouts[deployment][0], []).append(vertex)
    return found


class _Own:
    """What one rollout still has to do with."""

    def __init__(self, world: World, deployment: str, rollout: Rollout) -> None:
        self._rollout = rollout
        self._observer = Observer(world, deployment, rollout)
        self._grouped = {node for members in rollout.members.values() for node in members}
        self._left: dict[str, frozenset[Vertex]] = {}

    def has(self, vertex: Vertex) -> bool:
        node = vertex.node.name
        if node not in self._left:
            self._left[node] = frozenset(self._of(node))
        return vertex in self._left[node]

    def _of(self, node: str) -> Iterator[Vertex]:
        progress = self._rollout.nodes.get(node)
        if progress is None or node not in self._grouped or progress.state is NodeState.SUCCESS:
            return
        for phase in range(progress.passed, len(self._rollout.head.strategy.phases)):
            yield from self._observer.noderoles(node, phase)


def _under_way(opened: Session, world: World, deployments: Iterable[str]) -> Mapping[str, tuple[str, Rollout]]:
    """The rollouts under way of these deployments and of those above them; raises Invalid for one that cannot be read."""
    from nodepool_ocb.store import rollouts

    found: dict[str, tuple[str, Rollout]] = {}
    for deployment in dict.fromkeys(each for start in deployments for each in world.line(start)):
        stored = world.rollouts.get(deployment)
        newest = stored.record.newest if stored is not None and not stored.record.over else None
        read = rollouts.read(opened, deployment, newest) if newest is not None else None
        if newest is not None and read is not None and not read[0].over:
            found[deployment] = str(Key(deployment, newest)), read[0]
    return found
