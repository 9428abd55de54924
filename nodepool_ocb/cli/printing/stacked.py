"""Tables for terminals on which the first column leaves the others no room: it has a line of its own in each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

INDENT: Final = 2


def stacked(rows: Sequence[Mapping[str, Text]], first: str, widths: Mapping[str, int]) -> Table:
    """Each row is the column ``first``, and below it the columns of ``widths``."""
    from rich.table import Table
    from rich.text import Text

    titles = {name: Text(name.replace("_", " ").upper(), style="bold") for name in (first, *widths)}
    made = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    made.add_column(_row(titles, first, widths), overflow="ignore", no_wrap=True)
    for row in rows:
        made.add_row(_row(row, first, widths))
    return made


def _row(row: Mapping[str, Text], first: str, widths: Mapping[str, int]) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

    below = Table(box=None, pad_edge=False, show_header=False)
    for width in widths.values():
        below.add_column(overflow="fold", width=width)
    below.add_row(*(row[name] for name in widths))
    return Group(row[first], Padding(below, (0, 0, 0, INDENT))) if widths else row[first]
