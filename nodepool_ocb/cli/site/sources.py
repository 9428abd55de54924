"""The files that people name: one or several, folders of them, and ``-`` for stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents.document import Document
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.operations.site import documents as reading

if TYPE_CHECKING:
    from nodepool_ocb.operations.site.documents import DesiredState

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def wanted(sources: Iterable[str]) -> DesiredState:
    """The content of site files together; raises NotFound, or Invalid with every fault."""
    sources = tuple(dict.fromkeys(sources))
    found: list[Document] = []
    problems: list[str] = []
    for source in sources:
        for path in _files(source):
            try:
                found += _documents(path)
            except Invalid as wrong:
                problems += wrong.problems
    if problems:
        raise Invalid(problems)
    if not found:
        raise Invalid(f"no document is in {', '.join(sources)}; to print one: nodepool-ocb export")
    return reading.wanted(found)


def _files(source: str) -> Iterator[Path | None]:
    path = Path(source)
    if source == STDIN:
        yield None
    elif path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
        if not files:
            raise NotFound(f"{source} holds no site file; name a directory with files *.yaml, *.yml or *.json")
        yield from files
    elif path.exists():
        yield path
    else:
        raise NotFound(f"{source} does not exist; check the path")


def _documents(path: Path | None) -> list[Document]:
    if path is None:
        return documents.load_all(text(STDIN), "stdin", most=reading.MOST)
    return documents.load_all(path, most=reading.MOST)


def text(source: str) -> str:
    """The text of a file or of stdin; raises Invalid if it is too large or no UTF-8."""
    if source != STDIN:
        return documents.read(Path(source), reading.MOST.bytes)
    data = sys.stdin.buffer.read(reading.MOST.bytes + 1)
    if len(data) > reading.MOST.bytes:
        raise Invalid(f"stdin: is larger than {reading.MOST.bytes >> 20} MiB; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise Invalid("stdin: is not UTF-8; save it as UTF-8") from wrong
