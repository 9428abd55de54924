"""The states of noderoles, node by node and role by role, kept up to date with a world.

The cost of an update depends on the changes, not on the number of nodes. The cost of choosing rows depends on the
number of rows, and on the nodes of the state in which the choice ends.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.model.records import State
from nodepool_ocb.views.nodes import WORST
from nodepool_ocb.views.view import View

RANK = {state: rank for rank, state in enumerate(WORST)}


class Moved(View, frozen=True, kw_only=True):
    """A noderole that is in another state than before; None: it is gone."""

    noderole: str
    state: State | None
    reason: str | None = None


class Moment(View, frozen=True, kw_only=True):
    """A line of JSON of a watch: the numbers, and the noderoles that moved since the line before. The first line has
    all noderoles.
    """

    nodes: int
    roles: int
    noderoles: Mapping[State, int]
    changed: tuple[Moved, ...]


class SeenNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node at one look: the states of its noderoles, by role, with the reasons that are recorded; its remarks."""

    states: Mapping[str, State]
    reasons: Mapping[str, str] = {}
    note: str = ""


class SeenMatrix(msgspec.Struct, frozen=True):
    """The nodes at one look, by name."""

    nodes: Mapping[str, SeenNode]

    def within(self, shown: Collection[str]) -> SeenMatrix:
        """The same with those noderoles alone that are named, ``ROLE@FQDN``."""
        found = {}
        for name, node in self.nodes.items():
            states = {role: state for role, state in node.states.items() if f"{role}@{name}" in shown}
            if states:
                reasons = {role: reason for role, reason in node.reasons.items() if role in states}
                found[name] = SeenNode(states=states, reasons=reasons, note=node.note)
        return SeenMatrix(found)


class Matrix:
    """The noderoles that are ``wanted``; a node that has none of them is not in it."""

    def __init__(self, wanted: Callable[[Vertex], bool] = lambda _: True) -> None:
        self._wanted = wanted
        self._worst: dict[State, set[str]] = {state: set() for state in WORST}
        self._world = World()
        self.now = 0.0  # for holds and pauses with an end
        self.nodes: dict[str, dict[str, State]] = {}  # name → role → state
        self.roles: dict[str, Counter[State]] = {}
        self.counts: Counter[State] = Counter()

    def update(self, world: World, names: Iterable[str]) -> list[Moved]:
        """Look at these nodes again, gone ones too; gives the noderoles that moved."""
        self._world = world
        return [moved for name in sorted(names) for moved in self._node(name, world.nodes.get(name))]

    @property
    def seen(self) -> SeenMatrix:
        """The matrix as a value, which ``Shown.see`` shows elsewhere."""
        found = {}
        for name, states in self.nodes.items():
            vertices = self._world.nodes[name].noderoles
            reasons = {role: reason for role in states if (reason := vertices[role].record.reason)}
            found[name] = SeenNode(states=states, reasons=reasons, note=self.note(name))
        return SeenMatrix(found)

    def _node(self, name: str, view: NodeView | None) -> list[Moved]:
        wanted = {role: each for role, each in view.noderoles.items() if self._wanted(each)} if view else {}
        now = {role: vertex.record.state for role, vertex in sorted(wanted.items())}
        reasons = {role: vertex.record.reason for role, vertex in wanted.items()}
        return self._put(name, now, reasons)

    def _put(self, name: str, now: dict[str, State], reasons: Mapping[str, str | None]) -> list[Moved]:
        before = self.nodes.pop(name, {})
        if before:
            self._worst[worst(before)].discard(name)
        if now:
            self.nodes[name] = now
            self._worst[worst(now)].add(name)
        moved = sorted(role for role in before.keys() | now.keys() if before.get(role) != now.get(role))
        for role in moved:
            self._count(role, before.get(role), now.get(role))
        return [Moved(noderole=f"{role}@{name}", state=now.get(role), reason=reasons.get(role)) for role in moved]

    def _count(self, role: str, before: State | None, now: State | None) -> None:
        of_role = self.roles.setdefault(role, Counter())
        for state, step in ((before, -1), (now, 1)):
            if state is not None:
                of_role[state] += step
                self.counts[state] += step
        if not any(of_role.values()):
            del self.roles[role]

    # -- looking --

    def note(self, node: str) -> str:
        """The remarks on a node: held, paused, not alive or not available; empty if there are none."""
        view = self._world.nodes.get(node)
        record = view.record if view else None
        if view is None or record is None:
            return ""
        said = ["held"] if maintenance.held(record, self.now) else []
        said += ["paused"] if self._world.paused and self._paused(view) else []
        if not (record.alive or record.virtual):
            said.append("not alive")
        elif not record.available:
            said.append("not available")
        return ", ".join(said)

    def _paused(self, view: NodeView) -> bool:
        deployments = {vertex.record.deployment for vertex in view.noderoles.values() if self._wanted(vertex)}
        return any(maintenance.pauses(self._world, each, self.now) for each in deployments)

    def first(self, most: int) -> list[str]:
        """So many nodes: all by name where they are no more; else the worst, those in ERROR before all others."""
        if len(self.nodes) <= most:
            return sorted(self.nodes)
        chosen: list[str] = []
        for state in WORST:
            chosen += heapq.nsmallest(most - len(chosen), self._worst[state])
        errors = self._worst[State.ERROR]
        return sorted(chosen, key=lambda name: (name not in errors, name))

    def left(self, shown: Iterable[str]) -> dict[State, int]:
        """The number of the other nodes, by their worst state."""
        seen = Counter(worst(self.nodes[name]) for name in shown)
        return {state: count for state in WORST if (count := len(self._worst[state]) - seen[state])}

    def moment(self, changed: Iterable[Moved]) -> Moment:
        """The matrix as a line of JSON has it."""
        counts = {state: self.counts[state] for state in WORST}
        return Moment(nodes=len(self.nodes), roles=len(self.roles), noderoles=counts, changed=tuple(changed))


class ShownMatrix(Matrix):
    """A matrix that was seen elsewhere: by a server of the API."""

    def __init__(self) -> None:
        super().__init__()
        self._last = SeenMatrix({})

    def see(self, seen: SeenMatrix) -> list[Moved]:
        """Take a look; gives the noderoles that moved since the one before."""
        before, self._last = self._last, seen
        changed = sorted(
            name for name in {*before.nodes, *seen.nodes} if before.nodes.get(name) != seen.nodes.get(name)
        )
        return [moved for name in changed for moved in self._one(name, seen.nodes.get(name))]

    def _one(self, name: str, node: SeenNode | None) -> list[Moved]:
        return self._put(name, dict(node.states), node.reasons) if node else self._put(name, {}, {})

    def note(self, node: str) -> str:
        """The remarks of the newest look."""
        return self._last.nodes[node].note if node in self._last.nodes else ""


def worst(states: Mapping[str, State]) -> State:
    """The state that tells of a node."""
    return min(states.values(), key=RANK.__getitem__)
