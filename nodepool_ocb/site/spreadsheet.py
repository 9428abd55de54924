"""Nodes in a spreadsheet: CSV as Excel, LibreOffice and people write it, with a line of column names. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_node
from nodepool_ocb.site.desired_state import DesiredNode, DesiredState, SourceLocation

#: The names that people use for the columns.
CALLED: Final[Mapping[str, str]] = {
    "fqdn": "fqdn", "name": "fqdn", "node": "fqdn", "hostname": "fqdn",
    "address": "addresses", "ip": "addresses", "tag": "tags", "label": "labels", "mac": "macs",
}  # fmt: skip
MOST_COLUMNS: Final = 1000
DELIMITERS: Final = ",;\t"
_APART: Final = re.compile(r"[\s,;]+")
_TRUE: Final = frozenset({"true", "yes", "1", "x"})
_FALSE: Final = frozenset({"false", "no", "0"})


def read(text: str, name: str, defaults: Mapping[str, Any]) -> DesiredState:
    """The nodes of a table; ``defaults`` are fields of all that have none of their own.

    Columns: fqdn, and fields of a node; ``label:NAME`` is one label, ``hint:NAME`` one hint. An empty cell says nothing.
    Raises Invalid with every fault and its line.
    """
    rows = list(_rows(text, name))
    if not rows:
        raise Invalid(f"{name}:1: is empty; its first line names the columns: fqdn,address,tags")
    line, header = rows[0]
    columns = _columns(header, SourceLocation(name, line))
    problems: list[str] = []
    nodes: dict[str, DesiredNode] = {}
    for line, cells in rows[1:]:
        place = SourceLocation(name, line)
        try:
            node = _node(columns, cells, place, defaults)
        except Invalid as wrong:
            problems += wrong.problems
            continue
        before = nodes.setdefault(node.fqdn, node)
        if before is not node:
            problems.append(place.fault(f"{node.fqdn} is in line {before.place.line} already; remove one of them"))
    if problems:
        raise Invalid(problems)
    return DesiredState(nodes=nodes)


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not empty, with the line on which it begins."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, [cell.strip() for cell in cells]
            line = reader.line_num + 1
    except csv.Error as wrong:
        raise Invalid(f"{name}:{line}: is not CSV: {wrong}; correct this line") from wrong


def _columns(header: list[str], place: SourceLocation) -> list[str]:
    """The fields that the columns are for; raises Invalid."""
    if len(header) > MOST_COLUMNS:
        raise Invalid(place.fault(f"has {len(header)} columns, and may have {MOST_COLUMNS}; remove some"))
    columns = [_column(title) for title in header]
    known = [*dict.fromkeys([*CALLED, *CALLED.values(), *_READ])]
    problems = [
        place.fault(f"column {title!r} is not known{did_you_mean(title, known) or '; known are ' + ', '.join(known)}")
        for title, column in zip(header, columns, strict=True)
        if column.partition(":")[0] not in (*known, "label", "hint")
    ]
    problems += [
        place.fault(f"column {column} is there twice; remove one of them")
        for column, times in Counter(columns).items()
        if times > 1
    ]
    if "fqdn" not in columns:
        problems.append(place.fault("no column is called fqdn; the first line names the columns: fqdn,address,tags"))
    if problems:
        raise Invalid(problems)
    return columns


def _column(title: str) -> str:
    word, colon, name = title.strip().replace(" ", "_").partition(":")
    word = word.lower()
    return (
        f"{word}:{title.partition(':')[2].strip()}"
        if colon and name and word in ("label", "hint")
        else CALLED.get(word, word)
    )


def _node(columns: list[str], cells: list[str], place: SourceLocation, defaults: Mapping[str, Any]) -> DesiredNode:
    if len(cells) > len(columns) and any(cells[len(columns) :]):
        raise Invalid(
            place.fault(f"has {len(cells)} cells, and there are {len(columns)} columns; quote a value that has a comma")
        )
    said = {column: cell for column, cell in zip(columns, cells, strict=False) if cell}
    problems: list[str] = []
    fields: dict[str, Any] = dict(defaults)
    labels: dict[str, str] = {}
    for column, cell in said.items():
        try:
            if column.startswith("label:"):
                labels[column.partition(":")[2]] = cell
            elif column.startswith("hint:"):
                fields["hints"] = {**fields.get("hints", {}), column.partition(":")[2]: cell}
            elif column == "labels":
                fields["labels"] = {**_pairs(cell), **fields.get("labels", {})}
            elif column != "fqdn":
                fields[column] = _READ[column](cell)
        except ValueError as wrong:
            problems.append(place.fault(f"column {column}: {wrong}"))
    if labels:
        fields["labels"] = {**fields.get("labels", {}), **labels}
    fqdn = said.get("fqdn", "")
    if not is_node(fqdn) or "." not in fqdn:
        problems.append(
            place.fault(f"{fqdn!r} is no fully qualified domain name in small letters; write one like n1.example.com")
        )
    if problems:
        raise Invalid(problems)
    return DesiredNode(fqdn, SourceLocation(place.file, place.line, fqdn), fields)


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word for word in _APART.split(cell) if word)


def _claim(cell: str) -> bool:
    word = cell.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{cell!r} is neither true nor false")
    return word in _TRUE


def _pairs(cell: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in _words(cell)]
    wrong = next((name for name, equals, _ in pairs if not (name and equals)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is not KEY=VALUE; write a key, = and a value")
    return {name: value for name, _, value in pairs}


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "addresses": _words,
    "user": str,
    "deployment": str,
    "tags": _words,
    "macs": _words,
    "labels": _pairs,
    "rack": str,
    "bootenv": str,
    "admin": _claim,
    "available": _claim,
}
