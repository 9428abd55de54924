"""Boxes and arrows in Graphviz' language. Where there are too many for a picture, those of one kind are one box."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from nodepool_ocb.telemetry.terminal_escape import line

MOST: Final = 300  # boxes that a person can still look at


class Box(msgspec.Struct, frozen=True):
    """A noderole, or an instance of a task."""

    name: str
    kind: str  # the role, the task
    words: tuple[str, ...]  # below its kind
    state: str
    fill: str
    group: str | None = None  # the node


class GraphPicture(NamedTuple):
    """Boxes, and the arrows between them by their names."""

    boxes: Sequence[Box]
    arrows: Iterable[tuple[str, str]]


def dot(name: str, picture: GraphPicture) -> str:
    """One cluster a group; arrows go from left to right."""
    lines = [f"digraph {name} {{", '  rankdir="LR";', '  node [shape="box", style="filled,rounded"];']
    for group, boxes in _grouped(picture.boxes):
        if group is not None:
            lines += [f"  subgraph {quoted(f'cluster_{group}')} {{", f"    label={quoted(group)};"]
        for box in boxes:
            lines.append(f'    {quoted(box.name)} [label={quoted(box.kind, *box.words)}, fillcolor="{box.fill}"];')
        if group is not None:
            lines.append("  }")
    lines += [f"  {quoted(before)} -> {quoted(after)};" for before, after in picture.arrows]
    return "\n".join([*lines, "}"])


def quoted(*lines: str) -> str:
    r"""Lines of a label, or a name. Special characters are escaped, so that Graphviz shows them unchanged.

    >>> print(quoted('say "hi" \\N', "<b>"))
    "say \"hi\" \\N\n&lt;b&gt;"
    """
    return '"' + r"\n".join(map(_escaped, lines)) + '"'


def _escaped(text: str) -> str:
    return html.escape(line(text), quote=False).replace("\\", "\\\\").replace('"', '\\"')


def collapsed(picture: GraphPicture, worst: Sequence[str]) -> GraphPicture:
    """A box for each kind with how many are in which state, filled as the first of ``worst`` that it has."""
    kinds: dict[str, list[Box]] = {}
    for box in picture.boxes:
        kinds.setdefault(box.kind, []).append(box)
    of = {box.name: box.kind for box in picture.boxes}
    arrows = dict.fromkeys((of[before], of[after]) for before, after in picture.arrows)
    return GraphPicture([_together(kind, boxes, worst) for kind, boxes in sorted(kinds.items())], sorted(arrows))


def _together(kind: str, boxes: Sequence[Box], worst: Sequence[str]) -> Box:
    counts = Counter(box.state for box in boxes)
    states = [state for state in worst if counts[state]]
    fill = next(box.fill for box in boxes if box.state == states[0])
    return Box(kind, kind, tuple(f"{counts[state]:,} {state}" for state in states), states[0], fill)


def _grouped(boxes: Iterable[Box]) -> Iterable[tuple[str | None, list[Box]]]:
    found: dict[str | None, list[Box]] = {}
    for box in boxes:
        found.setdefault(box.group, []).append(box)
    return found.items()
