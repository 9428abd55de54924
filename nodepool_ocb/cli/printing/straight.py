"""The lines of a table that fits and has no colour, without rich: it takes half a millisecond a row, and long to import.

The lines are the same as rich's, character by character (tests/cli/printing/test_straight_tables.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: With one of these in the environment, rich may colour a text that goes to no terminal.
COLOURING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")


def colourless() -> bool:
    """Whether standard output gets no colour and has no width."""
    return not sys.stdout.isatty() and not any(map(os.environ.get, COLOURING))


def lines(rows: Sequence[Mapping[str, str]], columns: Sequence[str], gap: int, room: int) -> list[str] | None:
    """The header and a line for each row; None where a cell has several lines, or the rows are wider than ``room``."""
    widths: list[int] = []
    for column in columns:
        cells = [row[column] for row in rows]
        if not all(map(plain, cells)):
            return None
        widths.append(max(len(column), _widest(cells)))
    if sum(widths) + gap * (len(widths) - 1) > room:
        return None
    between = " " * gap
    header = [column.replace("_", " ").upper() for column in columns]
    made = [header, *([row[column] for column in columns] for row in rows)]
    return [between.join(map(_padded, row, widths)).rstrip() for row in made]


def pairs(rows: Sequence[tuple[str, str]], gap: int, room: int) -> list[str] | None:
    """A line for each key and its value; None where ``lines`` gives None."""
    if not all(plain(text) for row in rows for text in row):
        return None
    width = _widest(key for key, _ in rows)
    if width + gap + _widest(value for _, value in rows) > room:
        return None
    return [(_padded(key, width) + " " * gap + value).rstrip() for key, value in rows]


def plain(text: str) -> bool:
    """Whether it is one line, which rich prints as it is."""
    return "\n" not in text and "\t" not in text


def _widest(cells: Iterable[str]) -> int:
    return max(map(_cells, cells), default=0)


def _padded(cell: str, width: int) -> str:
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - _cells(cell))


def _cells(text: str) -> int:
    """The columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
