"""A matrix as lines of text that fit into a terminal: nodes down, roles across.

States are words if there is room. Else they are letters, with a legend. Nodes and roles that do not fit are counted.
Nodes and roles in error are shown before all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from nodepool_ocb.model.records import State
from nodepool_ocb.telemetry.terminal_escape import line as one_line
from nodepool_ocb.views.nodes import WORST
from nodepool_ocb.views.pictures.matrix import RANK, Matrix

LETTERS: Final[Mapping[State, str]] = {
    State.ERROR: "E",
    State.TRANSITION: "R",
    State.TODO: "T",
    State.BLOCKED: "B",
    State.PROPOSED: "P",
    State.ACTIVE: "A",
}
UNBOUND: Final = "."
WORD: Final = max(map(len, State))
CUT: Final = (16, 12, 8, 6)  # to which the names of roles are cut above letters
GAP: Final = 2
NARROW: Final = 60  # letters, below which notes are left out
EMPTY: Final = "no noderoles"


class LinePart(NamedTuple):
    """A part of a line; ``state`` selects its colour."""

    text: str
    state: State | None = None


Line = tuple[LinePart, ...]


class Grid(msgspec.Struct, frozen=True):
    """The part of a matrix that is shown: its rows, its columns with their widths, and whether states are words."""

    nodes: Sequence[str]
    roles: Mapping[str, int]
    label: int  # the width of a node's name
    note: int
    words: bool


def lines(matrix: Matrix, width: int, height: int) -> list[Line]:
    """At most ``height`` lines, none wider than ``width``."""
    head: list[Line] = [(LinePart(each),) for each in folded(summary(matrix), width)]
    if not matrix.nodes:
        return list[Line]([(LinePart(cut(EMPTY, width)),)])[:height]
    room = height - len(head) - 1
    grid = _grid(matrix, matrix.first(max(0, room)), width)
    below = _below(matrix, grid, width)
    if len(grid.nodes) > (left := max(0, room - len(below))):
        grid = _grid(matrix, matrix.first(left), width)
        below = _below(matrix, grid, width)
    table = [_header(grid), *(_row(matrix, grid, node) for node in grid.nodes)] if grid.nodes else []
    return [*head, *table, *below][:height]


def summary(matrix: Matrix) -> list[str]:
    """The numbers of nodes, roles and noderoles, as parts of a sentence."""
    counts = states(matrix.counts)
    return [
        _many(len(matrix.nodes), "node"),
        _many(len(matrix.roles), "role"),
        f"{_many(matrix.counts.total(), 'noderole')}:",
        *counts,
    ]


def states(counts: Mapping[State, int]) -> list[str]:
    """The number in each state, the worst first."""
    return [f"{counts[state]:,} {state}" for state in WORST if counts.get(state)]


def folded(parts: Iterable[str], width: int, between: str = ", ") -> list[str]:
    """The parts in as few lines as they take; one that is too wide for a line is cut.

    >>> folded(["6 nodes", "2 ERROR", "4 ACTIVE"], 18)
    ['6 nodes, 2 ERROR,', '4 ACTIVE']
    >>> folded(["3 noderoles:", "2 ERROR"], 40)
    ['3 noderoles: 2 ERROR']
    """
    made: list[str] = []
    for part in parts:
        joint = " " if made and made[-1].endswith(":") else between
        if made and len(made[-1]) + len(joint) + len(part) < width:
            made[-1] += joint + part
        else:
            made = [*made[:-1], *(each if each.endswith(":") else each + between.rstrip() for each in made[-1:]), part]
    return [cut(each, width) for each in made]


def cut(text: str, width: int) -> str:
    """The text in one line, its end left out where it is too long.

    >>> cut("machine-base", 6), cut("os", 6)
    ('machi~', 'os')
    """
    text = one_line(text)
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}~"


def middle_cut(text: str, width: int) -> str:
    """The text in one line, its middle left out where it is too long: names of roles often differ at their ends.

    >>> middle_cut("quorum-member", 8), middle_cut("os", 6)
    ('quor~ber', 'os')
    """
    text = one_line(text)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}~{text[len(text) - tail :]}"


def _grid(matrix: Matrix, nodes: Sequence[str], width: int) -> Grid:
    notes = max((len(matrix.note(node)) for node in nodes), default=0)
    note = notes + GAP if notes and width >= NARROW else 0
    longest = max((len(one_line(node)) for node in nodes), default=0)
    hosts = max((len(one_line(node.partition(".")[0])) + 1 for node in nodes), default=0)
    spare = width - note - len(matrix.roles) * (GAP + WORD)
    label = min(longest, width, max(width // 3, spare, min(hosts, width // 2), 4))
    room = width - label - note
    by_name = sorted(matrix.roles)
    whole = {role: max(len(one_line(role)), WORD) for role in by_name}
    if _total(whole) <= room:
        return Grid(nodes, whole, label, note, words=True)
    for most in CUT:
        shorter = {role: min(len(one_line(role)), most) for role in by_name}
        if _total(shorter) <= room:
            return Grid(nodes, shorter, label, note, words=False)
    return Grid(nodes, _fitting(matrix, shorter, room), label, note, words=False)


def _fitting(matrix: Matrix, widths: Mapping[str, int], room: int) -> dict[str, int]:
    """The columns that fit, those with the worst states before all others."""
    kept: set[str] = set()
    for role in sorted(widths, key=lambda role: (min(RANK[state] for state in +matrix.roles[role]), role)):
        if _total({each: widths[each] for each in (*kept, role)}) > room:
            break
        kept.add(role)
    return {role: width for role, width in widths.items() if role in kept}


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * len(widths)


def _below(matrix: Matrix, grid: Grid, width: int) -> list[Line]:
    """The numbers of nodes and roles that are not shown, and the legend of the letters."""
    found: list[str] = []
    if more := len(matrix.nodes) - len(grid.nodes):
        found += folded([f"... and {_many(more, 'node')} more:", *states(matrix.left(grid.nodes))], width)
    hidden = [role for role in matrix.roles if role not in grid.roles]
    if hidden and grid.nodes:
        counts: Counter[State] = sum((matrix.roles[role] for role in hidden), Counter())
        found += folded([f"... and {_many(len(hidden), 'role')} more:", *states(counts)], width)
    if grid.nodes and not grid.words:
        found += folded(_legend(matrix, grid), width, "  ")
    return [(LinePart(each),) for each in found]


def _legend(matrix: Matrix, grid: Grid) -> list[str]:
    """The meaning of each letter that is shown."""
    shown = {matrix.nodes[node].get(role) for node in grid.nodes for role in grid.roles}
    meant = [f"{LETTERS[state]} {state}" for state in WORST if state in shown]
    return [*meant, *([f"{UNBOUND} not bound"] if None in shown else [])]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _header(grid: Grid) -> Line:
    names = "".join(" " * GAP + middle_cut(role, width).ljust(width) for role, width in grid.roles.items())
    return (LinePart((cut("NODE", grid.label).ljust(grid.label) + names).rstrip()),)


def _row(matrix: Matrix, grid: Grid, node: str) -> Line:
    made = [LinePart(cut(node, grid.label).ljust(grid.label))]
    for role, width in grid.roles.items():
        state = matrix.nodes[node].get(role)
        unbound = "" if grid.words else UNBOUND
        word = (str(state) if grid.words else LETTERS[state]) if state else unbound
        made += [LinePart(" " * GAP), LinePart(word, state), LinePart(" " * (width - len(word)))]
    if grid.note:
        made.append(LinePart(" " * GAP + matrix.note(node)))
    return tuple(made)
