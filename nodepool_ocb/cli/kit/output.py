"""The output of commands: one document on stdout, in the form of ``-o``; sentences for people on stderr.

Colour appears on a terminal only, never with NO_COLOR, and only beside a word that says the same.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from nodepool_ocb.cli.kit import terminal
from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.cli.printing import straight
from nodepool_ocb.cli.printing.stacked import INDENT, stacked
from nodepool_ocb.model.records import Json
from nodepool_ocb.model.secrecy import hidden
from nodepool_ocb.telemetry.terminal_escape import visible
from nodepool_ocb.views.times import age
from nodepool_ocb.views.times import shown as local
from nodepool_ocb.views.view import View, public

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

COLOURS: Final[Mapping[str, str]] = {
    "PROPOSED": "magenta",
    "BLOCKED": "yellow",
    "TODO": "cyan",
    "TRANSITION": "blue",
    "ACTIVE": "green",
    "COMMITTED": "green",
    "building": "blue",
    "uploading": "blue",
    "ready": "green",
    "failed": "bold red",
    "aborted": "yellow",
    "delete": "magenta",
    "running": "blue",
    "success": "green",
    "paused": "yellow",
    "stopping": "yellow",
    "cancelling": "yellow",
    "cancelled": "yellow",
    "failure": "bold red",
    "unknown": "bold red",
    "ERROR": "bold red",
    "FAILED": "bold red",
    "PARENT_ERROR": "bold red",
}

AGES: Final = frozenset({"since", "started", "ended", "checked"})  # columns of moments that tables show as ages
#: Columns of other moments: tables show the local time.
MOMENTS: Final = frozenset(
    {
        "at",
        "created",
        "created_time",
        "deadline",
        "expires",
        "first",
        "last",
        "next_attempt",
        "state_time",
        "until",
        "used",
    }
)
COUNTS: Final = frozenset({"nodes"})  # columns of numbers by state
UNLIMITED: Final = 10_000
GAP: Final = 2  # blanks between two columns of a table
FOLDED: Final = frozenset(
    {
        "external_id",
        "reason",
        "jigs",
        "left_out",
        "purpose",
        "requires",
        "flags",
        "log",
        "id",
        "noderoles",
        "detail",
        "difference",
        "success_criteria",
        "place",
        "value",
        "layer",
        "fields",
        "what",
        "who",
    }
)
#: Columns that a table on a narrow terminal can do without, the least important first.
SPARE: Final = (
    *(
        "version",
        "pid",
        "pages",
        "settings",
        "queued",
        "jigs",
        "attempt",
        "format",
        "formats",
        "purpose",
        "base",
        "parent",
    ),
    *("cluster", "whose", "labels", "tags", "flags", "requires", "rack", "exit_code", "external_id", "log", "took"),
    *(
        "started",
        "created",
        "batch",
        "phase",
        "critical",
        "groups",
        "strategy",
        "what",
        "rollout_id",
        "driver",
        "slots",
        "by",
    ),
    *("unchecked", "in_sync", "deployment", "builder", "host", "since"),
)
LEAST: Final = 4  # letters of a column
LEGIBLE: Final = 12  # letters of a column that is folded against its nature
NARROWEST: Final = 16  # of a column that is folded
ENOUGH: Final = 24  # of the last column of a picture, to be of use


def chosen() -> str:
    """table, json, yaml or name."""
    return str(asked("output") or "table")


def say(text: str) -> None:
    """Print a sentence for people, on stderr."""
    terminal.text(text, err=True)


def things(
    rows: Sequence[View], columns: Sequence[str], key: str = "name", shown: Iterable[View] | None = None
) -> None:
    """A list of things: their ``columns`` in a table, everything in JSON and YAML, ``key`` alone as names.

    ``shown`` are rows for the table alone.
    """
    if chosen() == "table":
        render(table(rows if shown is None else shown, columns))
    else:
        made = [public(row) for row in rows]
        _write(made, [str(row[key]) for row in made])


def thing(value: View, name: str, *shown: RenderableType) -> None:
    """One thing: ``shown`` for people, or its fields where nothing is given to show."""
    if chosen() == "table":
        render(*(shown or (fields(value),)))
    else:
        _write(public(value), [name])


def text(value: View, words: str) -> None:
    """One thing that is text for people."""
    if chosen() == "table":
        terminal.text(words.rstrip("\n"))
    else:
        _write(public(value), words.splitlines())


def texts(many: Sequence[tuple[View, str]]) -> None:
    """Things that are texts for people, an empty line between two; a list in JSON and YAML."""
    if chosen() == "table":
        terminal.text("\n\n".join(words.rstrip("\n") for _, words in many))
    else:
        _write([public(value) for value, _ in many], [line for _, words in many for line in words.splitlines()])


def line(value: View) -> None:
    """One JSON object in a line, at once, as ``--watch`` gives them."""
    terminal.document(public(value), indent=None)


def _write(value: Json, names: Iterable[str]) -> None:
    match chosen():
        case "json":
            terminal.document(value)
        case "yaml":
            terminal.yaml_document(value)
        case _:
            for name in names:
                terminal.text(name)


# -- for people --


def console(file: TextIO | None = None) -> Console:
    """Rich's console. If stdout is no terminal, it is as wide as its lines, so that none is cut off."""
    from nodepool_ocb.cli.kit.console import Console

    file = file or sys.stdout
    width = None if file.isatty() else UNLIMITED
    return Console(file=file, width=width, highlight=False, soft_wrap=not file.isatty(), emoji=False, markup=False)


def render(*parts: RenderableType) -> None:
    """Print tables and text to stdout; a line that cannot be folded is not cut."""
    if straight.colourless() and (lines := _straight(parts)) is not None:
        if lines:
            terminal.rendered("\n".join(lines))
        return
    writer = console()
    made = [part.__rich__() if isinstance(part, Part) else part for part in parts]
    wide = writer.options.update(max_width=UNLIMITED)
    writer.width = max([writer.width, *(writer.measure(part, options=wide).maximum for part in made if _fixed(part))])
    with writer.capture() as printed:
        for part in made:
            writer.print(part)
    for row in printed.get().splitlines():
        terminal.rendered(row.rstrip())


def _straight(parts: Iterable[RenderableType]) -> list[str] | None:
    """The lines of these parts without rich; None if one of them needs it."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Part) and (found := part.lines()) is not None:
            lines += found
        elif isinstance(part, str) and straight.plain(part):
            lines.append(visible(part).rstrip())
        else:
            return None
    return lines


def _fixed(part: RenderableType) -> bool:
    """Whether it is a table of ``table``, which has made itself as narrow as it can be."""
    from rich.table import Table

    return isinstance(part, Table) and part.show_header


class Part(ABC):
    """A part of the output that rich makes only where it is needed: it takes long to import."""

    @abstractmethod
    def lines(self) -> list[str] | None:
        """The lines without rich; None where it is needed."""

    @abstractmethod
    def __rich__(self) -> Table:
        """The same for rich."""


class _Rows(Part):
    """A plain table. The columns ``AGES`` hold ages, ``MOMENTS`` times; states have their colour."""

    def __init__(self, rows: Iterable[View], columns: Sequence[str]) -> None:
        self._rows, self._columns = [public(row) for row in rows], columns

    def lines(self) -> list[str] | None:
        cells = [{column: _shown(column, row.get(column)) for column in self._columns} for row in self._rows]
        return straight.lines(cells, self._columns, GAP, UNLIMITED)

    def __rich__(self) -> Table:
        """On a terminal that is too narrow it is made to fit, and says which columns are left out."""
        from rich.table import Table

        columns = self._columns
        shown = [{column: cell(column, row.get(column)) for column in columns} for row in self._rows]
        empty = [each for each in columns if shown and all(str(row[each]) == "-" for row in shown)]
        natural = {each: max([len(each), *(_width(row[each]) for row in shown)]) for each in columns}
        widths = narrowed(natural, empty, console().width)
        if crowded(natural, widths, console().width):
            first, *rest = columns
            widths = narrowed({each: natural[each] for each in rest}, empty, console().width - INDENT)
            made = stacked(shown, first, widths)
            return _captioned(made, {first, *widths, *empty}, columns)
        made = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
        for column, width in widths.items():
            made.add_column(column.replace("_", " ").upper(), overflow="fold", width=width)
        for row in shown:
            made.add_row(*(row[column] for column in widths))
        return _captioned(made, {*widths, *empty}, columns)


def table(rows: Iterable[View], columns: Sequence[str]) -> Part:
    """A plain table of these columns."""
    return _Rows(rows, columns)


def _captioned(made: Table, shown: Collection[str], columns: Sequence[str]) -> Table:
    if gone := [each.replace("_", " ") for each in columns if each not in shown]:
        made.caption = f"(no room for: {', '.join(gone)}; -o json has all)"
    return made


def narrowed(widths: Mapping[str, int], empty: Sequence[str], room: int) -> dict[str, int]:
    """The columns that are shown, with their widths, so that they fit into ``room``.

    Columns that say nothing go first; then long texts are folded:

    >>> narrowed({"name": 9, "pause": 5, "reason": 60}, ["pause"], 200)
    {'name': 9, 'pause': 5, 'reason': 60}
    >>> narrowed({"name": 9, "pause": 5, "reason": 60}, ["pause"], 50)
    {'name': 9, 'reason': 39}

    then the columns of ``SPARE`` go in turn, but for the first; and last, the widest are folded. The first never is.

    >>> narrowed({"name": 45, "version": 8, "reason": 60}, [], 65)
    {'name': 45, 'reason': 18}
    >>> narrowed({"deployment": 16, "in_sync": 7, "advice": 60}, [], 65)
    {'deployment': 16, 'advice': 47}
    >>> narrowed({"name": 25, "verdict": 30, "reason": 60}, [], 60)
    {'name': 25, 'verdict': 15, 'reason': 16}
    """
    if _total(widths) <= room:
        return dict(widths)
    kept = {name: width for name, width in widths.items() if name not in empty}
    for spare in SPARE:
        if _total(folded := _folded(kept, room)) <= room:
            return folded
        if spare != next(iter(kept)):  # the column of the row's subject stays
            kept.pop(spare, None)
    return _squeezed(_folded(kept, room), room)


def _folded(widths: Mapping[str, int], room: int) -> dict[str, int]:
    """With long texts folded as far as they must and may be."""
    kept = dict(widths)
    while (over := _total(kept) - room) > 0:
        foldable = [name for name in kept if name in FOLDED and kept[name] > NARROWEST]
        if not foldable:
            break
        widest = max(foldable, key=lambda name: kept[name])
        kept[widest] = max(NARROWEST, kept[widest] - max(1, over // len(foldable)))
    return kept


def _squeezed(widths: Mapping[str, int], room: int) -> dict[str, int]:
    """With the widest columns behind the first folded, regardless of their content."""
    kept = dict(widths)
    rest = [*kept][1:]
    while _total(kept) > room and rest and kept[widest := max(rest, key=kept.__getitem__)] > LEAST:
        kept[widest] -= 1
    return kept


def crowded(natural: Mapping[str, int], widths: Mapping[str, int], room: int) -> bool:
    """Whether the first column leaves the others no room: then a row has two lines.

    >>> crowded({"name": 45, "state": 5, "reason": 60}, {"name": 45, "state": 4, "reason": 4}, 60)
    True
    >>> crowded({"name": 17, "state": 5, "reason": 60}, {"name": 17, "state": 5, "reason": 34}, 60)
    False
    """
    rest = [*widths][1:]
    return _total(widths) > room or any(widths[each] < min(natural[each], LEGIBLE) for each in rest)


def picture(rows: Iterable[View], columns: Sequence[str], spare: Sequence[str], room: int) -> Table:
    """A table that changes before one's eyes: one line a row, cut to ``room``, so that nothing in it jumps.

    Where it is too wide, columns that say nothing go, then those of ``spare`` in turn, then the end of the last column.
    """
    from rich.table import Table

    shown = [{column: cell(column, row.get(column)) for column in columns} for row in map(public, rows)]
    widths = cut(
        {each: max([len(each), *(_width(row[each]) for row in shown)]) for each in columns},
        [*(each for each in columns if shown and all(str(row[each]) == "-" for row in shown)), *spare],
        room,
    )
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in widths.items():
        made.add_column(column.replace("_", " ").upper(), overflow="ellipsis", no_wrap=True, width=width)
    for row in shown:
        made.add_row(*(row[column] for column in widths))
    return made


def cut(widths: Mapping[str, int], spare: Iterable[str], room: int) -> dict[str, int]:
    """The columns of a picture, with their widths: of ``spare`` those go first that are first, and only while they must.

    >>> cut({"name": 9, "since": 5, "detail": 60}, ["since"], 80)
    {'name': 9, 'since': 5, 'detail': 60}
    >>> cut({"name": 9, "since": 5, "detail": 60}, ["since"], 50)
    {'name': 9, 'since': 5, 'detail': 32}
    >>> cut({"name": 9, "since": 5, "detail": 60}, ["since"], 40)
    {'name': 9, 'detail': 29}
    >>> cut({"name": 9, "since": 5, "detail": 6}, ["detail"], 20)
    {'name': 9, 'since': 5}
    """
    kept, last = dict(widths), list(widths)[-1]
    for each in spare:
        if _total({**kept, last: min(kept[last], ENOUGH)}) <= room:
            break
        kept.pop(each, None)
        last = list(kept)[-1]
    over = max(0, _total(kept) - room)
    return {**kept, last: max(len(last), kept[last] - over)}


def _width(text: Text) -> int:
    return max((line.cell_len for line in text.split()), default=0)


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


class _Fields(Part):
    """Keys and values, one pair a row."""

    def __init__(self, pairs: Sequence[tuple[str, Json]]) -> None:
        self._pairs = pairs

    def lines(self) -> list[str] | None:
        return straight.pairs([(visible(key), _shown(key, value)) for key, value in self._pairs], GAP, UNLIMITED)

    def __rich__(self) -> Table:
        from rich.table import Table

        made = Table(box=None, pad_edge=False, show_header=False)
        made.add_column(style="bold", no_wrap=True)
        made.add_column(overflow="fold")
        for key, value in self._pairs:
            made.add_row(visible(key), cell(key, value))
        return made


def fields(*values: View | Mapping[str, Json], but: Collection[str] = ()) -> Part:
    """The fields of one thing, or its words, one a row; ``but`` are left out."""
    shown = [public(value) if isinstance(value, View) else hidden(value) for value in values]
    return _Fields([(key, each) for value in shown for key, each in value.items() if key not in but])


def verbatim(lines: Iterable[str]) -> Text:
    """Lines to be copied: never folded or cut."""
    from rich.text import Text

    return Text(visible("\n".join(lines)), no_wrap=True, overflow="ignore")


def cell(column: str, value: Json) -> Text:
    """A value as a table shows it."""
    from rich.text import Text

    shown = _shown(column, value)
    return Text(shown, style=COLOURS.get(shown, ""))


def _shown(column: str, value: Json) -> str:
    return visible(_words(column, value))


def _words(column: str, value: Json) -> str:
    if value is None or value in ([], (), {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in AGES and isinstance(value, int | float):
        return age(time.time() - value) if value else "-"
    if column in MOMENTS and isinstance(value, int | float):
        return local(value) if value else "-"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if column in COUNTS and isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
