"""The part of a plan to run: ``--tasks``, ``--skip``, ``--start`` and ``--end``. The rest is skipped, and keeps its place.

Each name is that of a task, a stage or a group, or TASK/NODES: the instances on these nodes only, as in ``netconfig/1,3-5``.
Nodes are uids, ranges of uids that are numbers, or FQDNs. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid

_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a person. Without any names everything is selected."""

    tasks: tuple[str, ...] = ()  # these alone
    skip: tuple[str, ...] = ()  # not these
    start: tuple[str, ...] = ()  # these, and those that need them
    end: tuple[str, ...] = ()  # these, and those that they need; with start: those on a way from start to end

    def __bool__(self) -> bool:
        return bool(self.tasks or self.skip or self.start or self.end)


class Span(msgspec.Struct, frozen=True):
    """A group: tasks before it are before ``enter``, tasks after it are after ``leave``; ``inside`` are its instances.

    ``start``: where a way begins that a person begins with the group.
    """

    start: int
    enter: int
    leave: int
    inside: Sequence[int]


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """The relations of the tasks of a plan, and the names in it."""

    parents: Sequence[Sequence[int]]  # of each vertex of the plan, and then of some that only tie others together
    order: Sequence[int]  # each after its parents
    node_of: Sequence[int]  # of each vertex of the plan
    tasks: Mapping[str, Sequence[int]]  # task or stage → its vertices
    groups: Mapping[str, Span]
    nodes: Sequence[tuple[str, str]]  # (fqdn, uid), in the order that node_of counts in


def unselected(selection: Selection, board: Board) -> dict[int, str]:
    """Vertex → why it is not run. Raises Invalid with every name, node and range that means nothing in this plan."""
    names = _VertexNames(board)
    wanted = {
        "start": names.vertices(selection.start, entering=True),
        "end": names.vertices(selection.end, entering=False),
        "tasks": names.members(selection.tasks),
        "skip": names.members(selection.skip),
    }
    if names.problems:
        raise Invalid(list(dict.fromkeys(names.problems)))
    marks = [0] * len(board.parents)
    if selection.start:
        _mark_below(board, wanted["start"], marks)
    if selection.end:
        _mark_above(board, wanted["end"], marks)
    return dict(_reasons(selection, marks[: len(board.node_of)], wanted["tasks"], wanted["skip"]))


BELOW: Final = 1  # is a start, or below one
ABOVE: Final = 2  # is an end, or above one


def _reasons(
    selection: Selection, marks: Sequence[int], tasks: Collection[int], skip: Collection[int]
) -> Iterator[tuple[int, str]]:
    whole = (BELOW if selection.start else 0) | (ABOVE if selection.end else 0)
    beside = f"not selected: not {_way(selection)}"
    others = f"not selected: not {_named(selection.tasks)}"
    for vertex, mark in enumerate(marks):
        if vertex in skip:
            yield vertex, "not selected: skipped by name"
        elif mark != whole:
            yield vertex, beside
        elif selection.tasks and vertex not in tasks:
            yield vertex, others


def _way(selection: Selection) -> str:
    start, end = _named(selection.start), _named(selection.end)
    if start and end:
        return f"between {start} and {end}"
    return f"{start} or after it" if start else f"{end} or before it"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"one of the {len(names)} that are named"


def _mark_below(board: Board, starts: Iterable[int], marks: list[int]) -> None:
    for vertex in starts:
        marks[vertex] = BELOW
    for vertex in board.order:
        if not marks[vertex] and any(marks[each] for each in board.parents[vertex]):
            marks[vertex] = BELOW


def _mark_above(board: Board, ends: Iterable[int], marks: list[int]) -> None:
    for vertex in ends:
        marks[vertex] |= ABOVE
    for vertex in reversed(board.order):
        if marks[vertex] & ABOVE:
            for each in board.parents[vertex]:
                marks[each] |= ABOVE


class _VertexNames:
    """Finds the vertices that names mean, and notes each name without a meaning."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.problems: list[str] = []
        self._by_name = {name: node for node, each in enumerate(board.nodes) for name in reversed(each)}
        self._numbers = {int(uid): node for node, (_, uid) in enumerate(board.nodes) if uid.isdecimal()}

    def vertices(self, said: Iterable[str], *, entering: bool) -> set[int]:
        """Where a way begins (``entering``), or ends."""
        found: set[int] = set()
        for each in said:
            name, _, nodes = each.partition("/")
            if name in self._board.groups and not nodes:
                span = self._board.groups[name]
                found |= {span.start, span.enter} if entering else {span.leave}
            else:
                found |= self._instances(each, "_start" if entering else "_end")
        return found

    def members(self, said: Iterable[str]) -> set[int]:
        """The vertices that are named; of a group all that is in it."""
        found: set[int] = set()
        for each in said:
            found |= self._instances(each, "")
        return found

    def _instances(self, said: str, suffix: str) -> set[int]:
        name, slash, nodes = said.partition("/")
        board = self._board
        if name not in board.tasks and name not in board.groups and f"{name}{suffix}" in board.tasks:
            name += suffix  # a stage: pre_deployment
        if name not in board.tasks and name not in board.groups:
            known = [*board.tasks, *board.groups]
            near = did_you_mean(name, known) or f"; there are: {some(known)}"
            self.problems.append(f"{said}: no task is called {name}{near}")
            return set()
        chosen = self._nodes(said, nodes) if slash else None
        found = set(board.tasks[name] if name in board.tasks else board.groups[name].inside)
        here = {board.node_of[vertex] for vertex in found}
        for node in sorted((chosen or set()) - here):
            self.problems.append(f"{said}: {name} does not run on {board.nodes[node][0]}; leave that node out")
        if not found:
            self.problems.append(f"{said}: {name} runs on no node of this run; leave it out")
        return found if chosen is None else {vertex for vertex in found if board.node_of[vertex] in chosen}

    def _nodes(self, said: str, text: str) -> set[int]:
        found: set[int] = set()
        for part in text.split(","):
            if part in self._by_name:
                found.add(self._by_name[part])
            elif match := _RANGE.fullmatch(part):
                found |= self._range(said, int(match[1]), int(match[2]))
            else:
                self.problems.append(f"{said}: no node of this run is called {part or 'nothing'}{self._near(part)}")
        return found

    def _range(self, said: str, first: int, last: int) -> set[int]:
        if first > last:
            self.problems.append(f"{said}: the range {first}-{last} runs backwards; write {last}-{first}")
        for uid in {first, last} - self._numbers.keys():
            self.problems.append(
                f"{said}: no node of this run has the uid {uid}; ranges begin and end with uids of nodes"
            )
        return {node for uid, node in self._numbers.items() if first <= uid <= last}

    def _near(self, part: str) -> str:
        return did_you_mean(part, self._by_name) or f"; there are: {some([each[0] for each in self._board.nodes])}"
