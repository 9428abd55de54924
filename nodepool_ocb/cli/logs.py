"""Logs that daemons serve: who may be asked, and how what they hold is printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import output, session, terminal
from nodepool_ocb.model.records import Daemon

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

MOST_BYTES: Final = 1 << 20  # of a log in JSON or YAML

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
            "--raw gives what was printed as it is, and control characters act on a terminal: send it to a file or a pipe"
        )


@contextmanager
def printer(raw: bool) -> Iterator[Out]:
    """What prints bytes as they come: as text with its control characters shown, or as they are."""
    if raw:
        yield terminal.raw
        return
    shown = terminal.Printer()
    try:
        yield shown.take
    finally:
        shown.close()


# -- who may be asked --


def daemons(opened: Session, kind: str) -> dict[str, Daemon]:
    """Those that are running, by their ids, as far as what they say can be read. Raises Unavailable."""
    from nodepool_ocb.store import daemons

    return {id: said for id, said in daemons.read(opened, kind).items() if said is not None}


def addresses(identity: str | None, host: str, running: Mapping[str, Daemon]) -> dict[str, Daemon]:
    """Where a daemon's logs may be asked for, HOST:PORT, the likeliest first: of itself, then of others on its host."""
    found: dict[str, Daemon] = {}
    for id, daemon in sorted(running.items(), key=lambda each: each[0] != identity):
        if daemon.pages and (id == identity or daemon.host == host) and reachable(daemon):
            found.setdefault(daemon.pages, daemon)
    return found


def reachable(daemon: Daemon) -> bool:
    """Whether its pages can be asked from here: those on a loopback address from its own host alone."""
    host = (daemon.pages or "").rpartition(":")[0].strip("[]")
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    return not loopback or session.on_this_host(daemon.host)
