"""Parents that a rollout commits after their children, or never: the child that is sent first waits until its time is up.

Pure; asked before a rollout begins. It cannot know whether groups that are at work side by side meet in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from nodepool_ocb.engine.world import ClusterView, Vertex, World
from nodepool_ocb.model.records import State
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.rollout.strategy import Group


class Turn(NamedTuple):
    """When a noderole is sent: its group, and in this the batch and the phase."""

    group: str
    batch: int
    phase: int


class Late(msgspec.Struct, frozen=True):
    """A noderole that waits for a parent on another node which has not begun by then."""

    noderole: str
    turn: Turn
    parent: str
    parent_turn: Turn | None  # None: no group, or no phase, sends it


def late(world: World, deployment: str, rollout: Rollout) -> Iterator[Late]:
    """Each PROPOSED noderole that has a parent which comes too late, with one such parent."""
    turns = _turns(world, deployment, rollout)
    order = _Order(rollout)
    found: dict[tuple[ClusterView, Turn], Vertex | None] = {}
    for vertex, turn in turns.items():
        for above in vertex.above:
            if isinstance(above, ClusterView):
                if (above, turn) not in found:
                    found[above, turn] = order.first(above.members, turns, turn)
                parent = found[above, turn]
            else:
                parent = order.first([above], turns, turn)
            if parent is not None:
                yield Late(vertex.name, turn, parent.name, turns.get(parent))
                break


def sequence(strategy_groups: Sequence[Group]) -> list[str]:
    """The names of groups in the order in which they begin, one at a time, if every one succeeds."""
    waiting = {group.name: set(group.depends_on) for group in strategy_groups}
    begun: dict[str, None] = {}
    while waiting:
        name = next(name for name, above in waiting.items() if begun.keys() >= above)
        begun[name] = None
        del waiting[name]
    return list(begun)


def parts(rollout: Rollout) -> dict[str, tuple[str, ...]]:
    """The nodes by the group that is the first to send them; by its batches if it has any: ``compute``, or ``compute/2``.

    Nodes in one part may be sent at the same time.
    """
    found: dict[str, list[str]] = {}
    taken = set[str]()
    for name in sequence([record.group for record in rollout.groups.values()]):
        number = _batches(rollout, name)
        for node in rollout.members[name]:
            if node not in taken:
                part = f"{name}/{number[node] + 1}" if rollout.groups[name].group.batches else name
                found.setdefault(part, []).append(node)
                taken.add(node)
    return {part: tuple(nodes) for part, nodes in found.items()}


def limited(rollout: Rollout) -> Iterator[str]:
    """The parts of which not all nodes may be in flight at once."""
    strategy = rollout.head.strategy
    limits = strategy.max_in_flight
    shared = limits.rack is not None or limits.labels or (limits.nodes is not None and strategy.parallel_groups > 1)
    for part, nodes in parts(rollout).items():
        group = rollout.groups[part.partition("/")[0]].group
        most = (limits.nodes, group.parallel_nodes or limits.group)
        if shared or any(each is not None and each < len(nodes) for each in most):
            yield part


def _turns(world: World, deployment: str, rollout: Rollout) -> dict[Vertex, Turn]:
    """The PROPOSED noderoles that will be sent; a node that several groups have is sent by the first of them."""
    look, found = Observer(world, deployment, rollout), dict[Vertex, Turn]()
    phases, taken = range(len(rollout.head.strategy.phases)), set[str]()
    for name in sequence([record.group for record in rollout.groups.values()]):
        batches = _batches(rollout, name)
        for node in rollout.members[name]:
            for phase in phases if node not in taken else ():
                for vertex in look.noderoles(node, phase):
                    if vertex.record.state is State.PROPOSED:
                        found.setdefault(vertex, Turn(name, batches[node], phase))
            taken.add(node)
    return found


def _batches(rollout: Rollout, name: str) -> Mapping[str, int]:
    """node → the batch of the group in which it is sent."""
    members, record = rollout.members[name], rollout.groups[name]
    ends = [batch.of(len(members)) for batch in record.group.batches]
    return {node: sum(position >= end for end in ends) for position, node in enumerate(members)}


class _Order:
    """The order of groups: all one after the other; or, side by side, only by their dependencies."""

    def __init__(self, rollout: Rollout) -> None:
        names = sequence([record.group for record in rollout.groups.values()])
        self._position = {name: position for position, name in enumerate(names)}
        self._before: dict[str, int] = {}  # group → the bits of those that must be over before it begins
        for position, name in enumerate(names):
            self._before[name] = (1 << position) - 1
            if rollout.head.strategy.parallel_groups > 1:
                above = [self._bits(each) for each in rollout.groups[name].group.depends_on]
                self._before[name] = 0
                for bits in above:
                    self._before[name] |= bits

    def _bits(self, name: str) -> int:
        return self._before[name] | 1 << self._position[name]

    def first(self, parents: Iterable[Vertex], turns: Mapping[Vertex, Turn], child: Turn) -> Vertex | None:
        """The first of the parents that is PROPOSED, and is not sent when this turn has come."""
        for parent in parents:
            if parent.record.state is State.PROPOSED and self._after(turns.get(parent), child):
                return parent
        return None

    def _after(self, parent: Turn | None, child: Turn) -> bool:
        if parent is None:
            return True
        if parent.group == child.group:
            return parent[1:] > child[1:]
        return bool(self._before[parent.group] >> self._position[child.group] & 1)
