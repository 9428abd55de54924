"""The output of every command to the terminal, with control characters shown.

Texts come from machines, files and people. ``text`` and ``Printer`` show them; ``document`` and ``yaml_document`` are exact
all the same, as JSON and YAML can escape. Tables and pictures go through ``cli.kit.output``, which does the same.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from nodepool_ocb.cli.printing import streams
from nodepool_ocb.model.records import Json
from nodepool_ocb.telemetry.terminal_escape import exact, odd, visible


def text(words: str, *, err: bool = False, end: bool = True) -> None:
    """Print words; ``end``: with the end of a line."""
    _echo(visible(words), err=err, nl=end)


def document(value: Json, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    _echo(exact(json.dumps(value, indent=indent, ensure_ascii=not streams.whole())))


def yaml_document(value: Json) -> None:
    """Print a value as YAML."""
    from nodepool_ocb.documents import written  # here, since yaml takes long to import

    plain = json.loads(json.dumps(value))  # no tuples, no types of ours
    text = written.text(plain)
    _echo(written.text(plain, exact=True) if odd(text) or not streams.whole() else text, nl=False)


def yaml_parts(parts: Iterable[str]) -> None:
    """Print parts of a YAML document of ASCII letters, one after the other."""
    for part in parts:
        _echo(part, nl=False)


def rendered(row: str) -> None:
    """Print lines that ``cli.kit.output`` made: colour is left out where it is not wanted."""
    _echo(row, color=True)


def raw(data: bytes) -> None:
    """Print bytes as they are; never to a terminal."""
    assert not sys.stdout.isatty(), "a caller that asks for it was refused before"
    with _writing():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _echo(words: str, **how: Any) -> None:
    with _writing():
        click.echo(words, **how)


@contextmanager
def _writing() -> Iterator[None]:
    """Raises Unwritable where nothing can be written; BrokenPipeError where the reader has left."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise streams.Unwritable(f"cannot write the output: {error.strerror}; {streams.ELSEWHERE}") from error


class Printer:
    """Prints bytes as they come, as text; those that are no UTF-8 are shown, too."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._within_line = False

    def take(self, data: bytes) -> None:
        """Print these bytes; of a letter that is cut in two nothing is printed before it is whole."""
        self._print(self._decoder.decode(data))

    def close(self) -> None:
        """There is no more; the next text on this terminal begins a line."""
        self._print(self._decoder.decode(b"", final=True))
        if self._within_line and sys.stdout.isatty():
            self._print("\n")

    def _print(self, words: str) -> None:
        text(words, end=False)
        self._within_line = not words.endswith("\n") if words else self._within_line
