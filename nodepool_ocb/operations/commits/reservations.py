"""Noderoles that a rollout under way will commit are reserved: no other commit moves them, unless it is forced. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.operation import Note, Steps
from nodepool_ocb.operations.reads.rollouts import ReadRollout
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import NodeState, Rollout
from nodepool_ocb.views.explanation import RolloutPointer

READS: Final = (ReadRollout,)


def guarded(
    world: World, vertices: Sequence[Vertex], transactions: Iterable[Sequence[Change]], force: bool
) -> Steps[None]:
    """The transactions that move these noderoles; each is refused if a rollout begins or proceeds meanwhile.

    Raises Conflict before the first transaction if one of them is reserved. With ``force`` the transactions are unchanged.
    """
    if force:
        yield from transactions
        return
    yield from refuse_reserved(world, vertices, "; --force moves them out of turn")
    held = structure.unchanged(world)
    for transaction in transactions:
        yield [held, *transaction]


def refuse_reserved(world: World, vertices: Sequence[Vertex], way_out: str = "") -> Steps[None]:
    """Raises Conflict if a rollout under way will commit one of these noderoles."""
    under_way = yield from _under_way(world, {vertex.record.deployment for vertex in vertices})
    for name, found in owned(world, under_way, vertices).items():
        names = some(sorted(vertex.name for vertex in found))
        raise Conflict(
            f"rollout {name} is under way and sends {names} in their turn; leave them to it, or end it:"
            f" nodepool-ocb rollout cancel {name}{way_out}"
        )


def warnings(world: World, deployment: str, effect: str) -> Steps[list[str]]:
    """A sentence with the effect of a change in this deployment, for each rollout under way in it or in a deployment above it."""
    under_way = yield from _under_way(world, {deployment})
    return [f"note: rollout {name} is under way: {effect}" for name, _ in under_way.values()]


def warn(world: World, deployment: str, effect: str) -> Steps[None]:
    """``warnings`` as notes."""
    sentences = yield from warnings(world, deployment, effect)
    yield from map(Note, sentences)


def owned(world: World, rollouts: RolloutPointer, vertices: Iterable[Vertex]) -> dict[str, list[Vertex]]:
    """The reserved noderoles by the rollout's name: they belong to a phase that their node has not passed."""
    found: dict[str, list[Vertex]] = {}
    own = {deployment: _Reserved(world, deployment, rollout) for deployment, (_, rollout) in rollouts.items()}
    for vertex in vertices:
        for deployment in world.line(vertex.record.deployment):
            if deployment in own and own[deployment].has(vertex):
                found.setdefault(rollouts[deployment][0], []).append(vertex)
    return found


class _Reserved:
    """The noderoles that one rollout reserves."""

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


def _under_way(world: World, deployments: Iterable[str]) -> Steps[Mapping[str, tuple[str, Rollout]]]:
    """The rollouts under way of these deployments and of those above them; raises Invalid for one that cannot be read."""
    found: dict[str, tuple[str, Rollout]] = {}
    for deployment in dict.fromkeys(each for start in deployments for each in world.line(start)):
        stored = world.rollouts.get(deployment)
        newest = stored.record.newest if stored is not None and not stored.record.over else None
        if newest is None:
            continue
        rollout = yield from ReadRollout(deployment, newest)
        if rollout is not None and not rollout.over:
            found[deployment] = str(Key(deployment, newest)), rollout
    return found
