"""Story files: cases that a person adds as text. A story is a title, then indented lines; an empty line ends it.

Lines that begin with ``#`` say how the stories of a file are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A line, and where it stands."""

    place: str  # FILE:NUMBER
    text: str

    @contextmanager
    def shown(self) -> Iterator[str]:
        """Its text; whatever fails inside is shown with the line."""
        try:
            yield self.text
        except Exception as error:
            error.add_note(f"{self.place}: {self.text}")
            raise


class Story(NamedTuple):
    """One case."""

    title: str
    lines: tuple[Line, ...]


def stories(name: str) -> list[Story]:
    """Those of a file in this folder, by order."""
    return list(read(Path(__file__).with_name(name).read_text(), name))


def read(text: str, name: str) -> Iterator[Story]:
    """The stories of a text; ``name`` is the file's."""
    title, lines = "", list[Line]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.startswith(" "):
            assert title, f"{name}:{number}: a story begins with its title, at the beginning of a line"
            lines.append(Line(f"{name}:{number}", line.strip()))
        elif line:
            assert not title, f"{name}:{number}: an empty line stands before a title"
            title = line
        elif title:
            assert lines, f"{name}:{number}: {title}: nothing happens"
            yield Story(title, tuple(lines))
            title, lines = "", []
