"""The states of many noderoles as a compact document: one letter for each, in a row for each node.

2,000 nodes with 12 roles are some 150 kB, where a row for each noderole takes 5 MB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.model.records import State
from nodepool_ocb.views.view import View

#: The letter of a state, in a row; UNBOUND stands for a role that the node does not have.
LETTERS: Final = {
    State.ERROR: "E",
    State.TRANSITION: "R",  # runs
    State.TODO: "T",
    State.BLOCKED: "B",
    State.PROPOSED: "P",
    State.ACTIVE: "A",
}
UNBOUND: Final = "."
MILESTONE: Final = "milestone"
#: The letter of a remark on a node.
HELD, NOT_ALIVE, NOT_AVAILABLE = "h", "d", "u"


class GridRole(View, frozen=True, kw_only=True):
    """A column: a role, and the number of its noderoles in each state."""

    role: str
    milestone: bool
    noderoles: Mapping[State, int]


class GridLine(View, frozen=True):
    """A node for a table."""

    node: str
    rack: str
    marks: str
    states: str


class NoderoleGrid(View, frozen=True, kw_only=True):
    """The noderoles, node by node: the n-th node has the n-th rack, marks and states."""

    roles: tuple[GridRole, ...]  # parents before children
    nodes: tuple[str, ...]  # sorted
    racks: tuple[str, ...]  # empty for a node without one
    marks: tuple[str, ...]  # the letters of the remarks on a node
    states: tuple[str, ...]  # one letter for each role
    totals: Mapping[State, int]

    @property
    def lines(self) -> list[GridLine]:
        """The nodes for a table."""
        return [GridLine(*each) for each in zip(self.nodes, self.racks, self.marks, self.states, strict=True)]

    def numbers(self) -> NoderoleGrid:
        """The roles with their numbers, without any node."""
        return replace(self, nodes=(), racks=(), marks=(), states=())

    def within(self, shown: Collection[str]) -> NoderoleGrid:
        """The same with those noderoles alone that are named; a role or a node without any is left out."""
        rows = {
            (node, role.role): letter
            for node, letters in zip(self.nodes, self.states, strict=True)
            for role, letter in zip(self.roles, letters, strict=True)
            if letter != UNBOUND and f"{role.role}@{node}" in shown
        }
        about = {node: rest for node, *rest in zip(self.nodes, self.racks, self.marks, strict=True)}
        return _grid([(role.role, role.milestone) for role in self.roles], about, rows)


def grid(world: World, wanted: Iterable[Vertex], now: float) -> NoderoleGrid:
    """The noderoles that are wanted."""
    rows, deepest, nodes = {}, dict[str, int](), dict[str, NodeView]()
    for vertex in wanted:
        rows[vertex.node.name, vertex.role] = LETTERS[vertex.record.state]
        nodes[vertex.node.name] = vertex.node
        deepest[vertex.role] = max(deepest.get(vertex.role, 0), world.depth(vertex))
    order = sorted(deepest, key=lambda role: (deepest[role], role))
    roles = [(role, _is_milestone(world, role)) for role in order]
    return _grid(roles, {name: _about(view, now) for name, view in sorted(nodes.items())}, rows)


def _grid(
    roles: Iterable[tuple[str, bool]], nodes: Mapping[str, Iterable[str]], rows: Mapping[tuple[str, str], str]
) -> NoderoleGrid:
    with_any_node = {node for node, _ in rows}
    with_any_role = {role for _, role in rows}
    names = [name for name in nodes if name in with_any_node]
    columns = [(role, milestone) for role, milestone in roles if role in with_any_role]
    states = ["".join([rows.get((node, role), UNBOUND) for role, _ in columns]) for node in names]
    about = [tuple(nodes[name]) for name in names]
    counted = [Counter(row[place] for row in states) for place in range(len(columns))]
    return NoderoleGrid(
        roles=tuple(
            GridRole(role=role, milestone=milestone, noderoles=_by_state(counts))
            for (role, milestone), counts in zip(columns, counted, strict=True)
        ),
        nodes=tuple(names),
        racks=tuple(rack for rack, _ in about),
        marks=tuple(marks for _, marks in about),
        states=tuple(states),
        totals=_by_state(sum(counted, Counter())),
    )


def _by_state(counts: Mapping[str, int]) -> dict[State, int]:
    return {state: counts[letter] for state, letter in LETTERS.items() if counts.get(letter)}


def _is_milestone(world: World, role: str) -> bool:
    stored = world.roles.get(role)
    return stored is not None and MILESTONE in stored.record.flags


def _about(view: NodeView, now: float) -> tuple[str, str]:
    """Rack, and marks."""
    record = view.record
    if record is None:
        return "", ""
    said: list[tuple[str, Callable[[], bool]]] = [
        (HELD, lambda: maintenance.held(record, now)),
        (NOT_ALIVE, lambda: not (record.alive or record.virtual)),
        (NOT_AVAILABLE, lambda: not record.available),
    ]
    return record.rack or "", "".join(letter for letter, holds in said if holds())
