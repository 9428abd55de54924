"""What commands print: exactly one document on stdout, in the form that ``-o`` asks for; words for people on stderr.

Colour appears on a terminal only, never with NO_COLOR, and only beside a word that says the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
import msgspec

from nodepool_ocb.cli.common import asked
from nodepool_ocb.model import Json, Record

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

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


def chosen() -> str:
    """table, json, yaml or name."""
    return str(asked("output") or "table")


def say(text: str) -> None:
    """A sentence for whoever watches, on stderr."""
    click.echo(text, err=True)


def things(
    rows: Sequence[Mapping[str, Json]],
    columns: Sequence[str],
    key: str = "name",
    words: Callable[[Mapping[str, Json]], Mapping[str, Json]] = dict,
) -> None:
    """A list of things: their ``columns`` in a table, everything in JSON and YAML, ``key`` alone as names.

    ``words`` makes of a row what the table shows.
    """
    if chosen() == "table":
        render(table(map(words, rows), columns))
    else:
        _write([dict(row) for row in rows], [str(row[key]) for row in rows])


def thing(value: Mapping[str, Json], name: str, *shown: RenderableType) -> None:
    """One thing: ``shown`` for people, or its fields where nothing is given to show."""
    if chosen() == "table":
        render(*(shown or (fields(value),)))
    else:
        _write(dict(value), [name])


def text(value: Mapping[str, Json], words: str) -> None:
    """One thing that is text for people."""
    if chosen() == "table":
        click.echo(words.rstrip("\n"))
    else:
        _write(dict(value), words.splitlines())


def line(value: Mapping[str, Json]) -> None:
    """One JSON object in a line, at once, as ``--watch`` gives them."""
    click.echo(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()


def _write(value: Json, names: Iterable[str]) -> None:
    match chosen():
        case "json":
            click.echo(json.dumps(value, indent=2, ensure_ascii=False))
        case "yaml":
            import yaml

            plain = json.loads(json.dumps(value))  # no tuples, no types of ours
            click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            for name in names:
                click.echo(name)


def plain(record: Record) -> dict[str, Json]:
    """A record with all its fields, defaults too, and what a later version added."""
    known = {name: msgspec.to_builtins(getattr(record, name)) for name in record.__struct_fields__ if name != "unknown"}
    return {**(record.unknown or {}), **known}


# -- for people --


def console(file: TextIO | None = None) -> Console:
    """Rich's console; on what is no terminal as wide as it takes, so that nothing is cut off."""
    from rich.console import Console

    file = file or sys.stdout
    width = None if file.isatty() else 10_000
    return Console(file=file, width=width, highlight=False, soft_wrap=not file.isatty(), emoji=False, markup=False)


def render(*parts: RenderableType) -> None:
    """Print tables and text to stdout."""
    writer = console()
    with writer.capture() as printed:
        for part in parts:
            writer.print(part)
    for row in printed.get().splitlines():
        click.echo(row.rstrip(), color=True)  # rich has left colour out where it is not wanted


def table(rows: Iterable[Mapping[str, Json]], columns: Sequence[str]) -> Table:
    """A plain table; columns named ``since`` hold ages, states have their colour."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column.replace("_", " ").upper(), overflow="fold")
    for row in rows:
        made.add_row(*(cell(column, row.get(column)) for column in columns))
    return made


def fields(value: Mapping[str, Json]) -> Table:
    """The fields of one thing, one a row."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for key, each in value.items():
        made.add_row(key, cell(key, each))
    return made


def cell(column: str, value: Json) -> Any:
    """A value as a table shows it."""
    from rich.text import Text

    shown = _words(column, value)
    return Text(shown, style=COLOURS.get(shown, ""))


def _words(column: str, value: Json) -> str:
    if value is None or value in ([], (), {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in ("since", "started", "ended") and isinstance(value, int | float):
        return age(time.time() - value) if value else "-"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def age(seconds: float) -> str:
    """How long ago, in the largest two units.

    >>> age(4), age(3900.0), age(180_000)
    ('4s', '1h5m', '2d2h')
    """
    left = max(0, int(seconds))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{name}")
    return "".join(part for part in parts[:2] if not part.startswith("0")) or "0s"
