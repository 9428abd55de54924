"""``daemon pause`` and ``daemon resume``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.aside.options import aside_options, ends, say
from nodepool_ocb.cli.kit import completion
from nodepool_ocb.cli.kit import session as connection
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.engine import aside
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, DaemonPause, Delete, Set
from nodepool_ocb.operations.names import unknown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

daemons_argument = click.argument(
    "daemons", nargs=-1, required=True, metavar="ID|KIND@HOST...", shell_complete=completion.daemons
)


@click.command(cls=Verb, writes=True)
@daemons_argument
@aside_options
@dry_run_option
def pause(daemons: Sequence[str], reason: str, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let daemons begin nothing new: all of that kind on that host, also those that are started later.

    What they do goes on to its end; rollouts and runs of tasks are handed over.
    """
    with connection.session() as opened:
        end = ends(opened.now(), until, seconds)

        def decide() -> Iterator[Sequence[Change]]:
            for kind, host in _meant(opened, daemons):
                yield from _pausing(opened, kind, host, reason, end, dry_run)

        connection.report(connection.decided(opened, decide, dry_run), dry_run)
        for kind, host in _meant(opened, daemons):
            say(f"{aside.daemons(kind, host)} begin nothing new", end, aside.resuming_daemons(kind, host))


def _pausing(
    opened: Session, kind: str, host: str, reason: str, end: float | None, dry_run: bool
) -> Iterator[Sequence[Change]]:
    from nodepool_ocb.store import daemons as stored

    path, found = paths.daemon_pause(kind, host), stored.pause(opened, kind, host)
    before = found.record.pause if found is not None else None
    what, lift = f"{aside.daemons(kind, host)} are paused", aside.resuming_daemons(kind, host)
    made = aside.put(before, what, lift, connection.me(), reason, opened.now(), end)
    if found is None:
        if not dry_run:
            opened.ensure(paths.daemon_pauses(kind))
        yield [Create(path, DaemonPause(pause=made))]
    elif made is not before:
        yield [Set(path, DaemonPause(pause=made), found.version)]


@click.command(cls=Verb, writes=True)
@daemons_argument
@dry_run_option
def resume(daemons: Sequence[str], dry_run: bool) -> None:
    """Let daemons go on that were paused."""
    from nodepool_ocb.store import daemons as stored

    def decide() -> Iterator[Sequence[Change]]:
        for kind, host in _meant(opened, daemons):
            if (found := stored.pause(opened, kind, host)) is not None:
                yield [Delete(paths.daemon_pause(kind, host), found.version)]

    with connection.session() as opened:
        connection.report(connection.decided(opened, decide, dry_run), dry_run)


def _meant(opened: Session, names: Sequence[str]) -> list[tuple[str, str]]:
    """The kind and the host of each; raises NotFound for the id of a daemon that is not running."""
    from nodepool_ocb.store import daemons as stored

    running = {
        identity: (kind, record.host)
        for kind in paths.DAEMON_KINDS
        for identity, record in stored.read(opened, kind).items()
        if record is not None
    }
    return list(dict.fromkeys(_one(name, running) for name in names))


def _one(name: str, running: dict[str, tuple[str, str]]) -> tuple[str, str]:
    if name in running:
        return running[name]
    kind, at, host = name.partition("@")
    if at and host and "/" not in host and kind in paths.DAEMON_KINDS:
        return kind, host
    raise unknown("daemon", name, running)
