"""Tasks that wait for themselves, among the requirements that hold on any nodes.

A requirement between two tasks holds on nodes that have both, so a circle of tasks is one if some role has them all. Through
stages, and among groups, it holds everywhere. Other circles depend on the nodes: the compiled plan shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from nodepool_ocb.documents.cycles import Component, components
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.tasks import patterns
from nodepool_ocb.tasks.documents.entries import TaskEntry
from nodepool_ocb.tasks.documents.notes import Notes
from nodepool_ocb.tasks.tasklist import EVERY, MASTER, TaskKind

MOST: Final = 1_000_000  # requirements, those by patterns one by one; a larger list is left to the compiled plan
SHOWN: Final = 10  # tasks of a circle
ANY: Final = "?"  # a node with none of the roles that the list names

#: id → the ids that it waits for, each with the entry and the key that say so.
Edges: TypeAlias = Mapping[str, Mapping[str, tuple[TaskEntry, Key]]]


def check(listed: Sequence[TaskEntry], renamed: Mapping[str, str], notes: Notes, compat_prefix: bool = False) -> None:
    """Note one shortest circle of each knot."""
    by_id = {entry.id: entry for entry in listed}
    edges = _edges(by_id, renamed, compat_prefix)
    knots = components(edges)
    where = _Where(by_id, compat_prefix) if knots else None
    for knot in knots:
        assert where is not None
        circles = components(_on_nodes(knot, edges, by_id, where))
        if circles:
            _note(circles[0], edges, by_id, notes)


def _edges(by_id: Mapping[str, TaskEntry], renamed: Mapping[str, str], compat_prefix: bool) -> Edges:
    found: dict[str, dict[str, tuple[TaskEntry, Key]]] = {name: {} for name in by_id}
    matching: dict[str, list[str]] = {}

    def meant(entry: TaskEntry, name: str) -> Iterable[str]:
        if not patterns.is_pattern(name):
            return [name for name in (renamed.get(name, name),) if name in by_id]
        if name not in matching:
            refused = patterns.too_many(len(matching) + 1, len(by_id)) or patterns.fault(name) is not None
            matching[name] = [] if refused else patterns.matching(name, by_id, compat_prefix)
        return (each for each in matching[name] if each != entry.id)  # a pattern never means its own task

    room = MOST
    for name, entry in by_id.items():
        for field in ("requires", "required_for"):
            for key, other in entry.names(field):
                for each in islice(meant(entry, other), room):
                    room -= 1
                    before, after = (name, each) if field == "requires" else (each, name)
                    found[before].setdefault(after, (entry, key))
    return found


class _Where:
    """The roles of nodes that have a task."""

    def __init__(self, by_id: Mapping[str, TaskEntry], compat_prefix: bool) -> None:
        self._compat_prefix = compat_prefix
        self._groups = {name: self._said(entry) for name, entry in by_id.items() if entry.kind is TaskKind.GROUP}
        self._added: dict[str, set[str]] = {}
        for group, entry in by_id.items():
            for _, task in entry.names("tasks") if entry.kind is TaskKind.GROUP else ():
                self._added.setdefault(task, set()).add(group)
        said = {name for entry in by_id.values() for name in self._said(entry)}
        plain = {name for name in said if name != EVERY and not patterns.is_pattern(name)}
        self._all = frozenset({*plain, *self._groups, ANY} - {MASTER})
        self._found: dict[str, frozenset[str]] = {}

    def roles(self, entry: TaskEntry) -> frozenset[str]:
        own = self._said(entry) or (() if entry.id in self._added else (entry.id,))
        return frozenset().union(*map(self._nodes, (*own, *self._added.get(entry.id, ()))))

    @staticmethod
    def _said(entry: TaskEntry) -> tuple[str, ...]:
        field = entry.where()
        return tuple(name for _, name in entry.names(field)) if field else ()

    def _nodes(self, name: str) -> frozenset[str]:
        if name not in self._found:
            self._found[name] = frozenset(self._expanded(name))
        return self._found[name]

    def _expanded(self, name: str) -> Iterable[str]:
        if name == EVERY:
            return self._all
        if patterns.is_pattern(name):
            return [] if patterns.fault(name) else patterns.matching(name, self._all, self._compat_prefix)
        return {name, *(each for each in self._groups.get(name, ()) if each != EVERY and not patterns.is_pattern(each))}


def _on_nodes(knot: Component, edges: Edges, by_id: Mapping[str, TaskEntry], where: _Where) -> dict[str, list[str]]:
    """The knot if each role has a node of its own: ``task@role``; stages and groups by their names."""
    plain = {TaskKind.STAGE, TaskKind.GROUP}
    said = {name: where.roles(by_id[name]) for name in sorted(knot.names) if by_id[name].kind not in plain}
    alike = _alike(said)
    roles = {name: alike & said[name] if name in said else None for name in knot.names}
    graph: dict[str, list[str]] = {}
    for name in knot.names:
        for other in edges[name]:
            if other in knot.names:
                for before, after in _pairs(name, roles[name], other, roles[other], by_id):
                    graph.setdefault(before, []).append(after)
                    graph.setdefault(after, [])
    return graph


def _alike(roles: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """One role of each set with the same tasks; ANY is preferred."""
    tasks: dict[str, list[str]] = {}
    for task, those in roles.items():
        for role in those:
            tasks.setdefault(role, []).append(task)
    chosen: dict[tuple[str, ...], str] = {}
    for role in sorted(tasks, key=lambda role: (role != ANY, role)):
        chosen.setdefault(tuple(tasks[role]), role)
    return frozenset(chosen.values())


def _pairs(
    name: str, on: frozenset[str] | None, other: str, others_on: frozenset[str] | None, by_id: Mapping[str, TaskEntry]
) -> Iterator[tuple[str, str]]:
    if on is None and others_on is None:
        yield name, other
    elif on is None and others_on is not None and by_id[name].kind is TaskKind.STAGE:
        yield from ((name, f"{other}@{role}") for role in others_on)
    elif on is not None and others_on is None and by_id[other].kind is TaskKind.STAGE:
        yield from ((f"{name}@{role}", other) for role in on)
    elif on is not None and others_on is not None:
        yield from ((f"{name}@{role}", f"{other}@{role}") for role in on & others_on)


def _note(circle: Component, edges: Edges, by_id: Mapping[str, TaskEntry], notes: Notes) -> None:
    names = [name.partition("@")[0] for name in circle.circle]
    roles = sorted({role for _, _, role in (name.partition("@") for name in circle.circle) if role not in ("", ANY)})
    steps = [f"{name} ({by_id[name].place})" for name in names[:-1]]
    left_out = [f"{len(steps) - SHOWN} more"] if len(steps) > SHOWN else []
    way = " -> ".join([*steps[:SHOWN], *left_out, names[-1]])
    on = f" on nodes with role {roles[0]}" if roles else ""
    entry, key = edges[names[0]][names[1]]
    notes.fault(entry, key, f"must not make a task wait for itself, and does{on}: {way}; take one of these away")
