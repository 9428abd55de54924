"""How logs that daemons serve are printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from nodepool_ocb.cli.kit import output, terminal

Out = Callable[[bytes], None]

raw_option = click.option(
    "--raw", is_flag=True, help="The bytes as they are, control characters too; for a file or a pipe."
)
follow_option = click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")


def refuse(*, follow: bool, raw: bool) -> None:
    """Raises UsageError where that cannot be had together, or would let control characters act on a terminal."""
    if (follow or raw) and output.chosen() != "table":
        raise click.UsageError(f"{'-f' if follow else '--raw'} gives text as it comes; leave -o away")
    if raw and sys.stdout.isatty():
        raise click.UsageError(
            "--raw prints the bytes as they are, and control characters act on a terminal; send it to a file or a pipe"
        )


@contextmanager
def printer(raw: bool) -> Iterator[Out]:
    """A function that prints bytes as they come: as text with its control characters shown, or unchanged."""
    if raw:
        yield terminal.raw
        return
    shown = terminal.Printer()
    try:
        yield shown.take
    finally:
        shown.close()
