"""How commands reach ZooKeeper: read the world, decide, write; and decide again if somebody was faster.

The store is imported when a command needs it, and not before.
"""

from __future__ import annotations

import logging
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import journal
from nodepool_ocb.cli.kit.journal import me as me
from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Change
from nodepool_ocb.views.changes import ChangeRow, ChangesDocument, DetailedRow

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings
    from nodepool_ocb.store.client.session import Session

CONNECT_SECONDS: Final = 7.0  # a command without ZooKeeper ends within ten, also on a busy machine
REFUSED_SECONDS: Final = 1.0  # a server that restarts may be back by then
NOTES: Final = 12  # that are said for people
ATTEMPTS: Final = 40  # each loses to somebody whose change was written, so many people get on side by side
LONGEST_PAUSE_SECONDS: Final = 1.0

Decide = Callable[["Session", World], Iterable[Sequence[Change]]]


def settings(ctx: click.Context | None = None) -> Settings:
    """The configuration, with ``--zookeeper`` in its place; raises Invalid."""
    from nodepool_ocb import config

    loaded = config.load(asked("config", ctx))
    hosts = asked("zookeeper", ctx)
    return replace(loaded, zookeeper=replace(loaded.zookeeper, hosts=hosts)) if hosts else loaded


@contextmanager
def session(
    ctx: click.Context | None = None,
    timeout_seconds: float = CONNECT_SECONDS,
    on_connected: Callable[[], None] | None = None,
    founding: bool = False,
) -> Iterator[Session]:
    """A session that is closed at the end, and notes in the journal what it commits.

    Raises Unavailable, Denied, Invalid, or NoCluster unless it is ``founding``.
    """
    from nodepool_ocb.store import clusters
    from nodepool_ocb.store.journal import Journaled

    for library in ("kazoo", "nodepool_ocb.store"):  # what matters comes to us as exceptions
        logging.getLogger(library).setLevel(logging.CRITICAL)
    made = Journaled(settings(ctx).zookeeper, journal.note, noted=journal.noted, on_connected=on_connected)
    made.start(timeout_seconds, refused_seconds=REFUSED_SECONDS)
    try:
        if not founding:
            clusters.current(made)
        yield made
    finally:
        made.close()


def load(opened: Session) -> World:
    """Everything as it is now, and no older than this call; says on stderr what cannot be read."""
    from nodepool_ocb.cli.kit.output import say
    from nodepool_ocb.store.world.load import load_world

    opened.sync()
    world = load_world(opened)
    journal.declare(world)
    for reason in world.unreadable.values():
        say(f"warning: this record cannot be read: {reason}")
    return world


def world() -> World:
    """Everything as it is now, for commands that only read."""
    with session() as opened:
        return load(opened)


def on_this_host(host: str) -> bool:
    """Whether a daemon that calls its host so is on this one."""
    return host in (socket.gethostname(), socket.getfqdn())


def change(opened: Session, decide: Decide, dry_run: bool = False) -> list[Change]:
    """Write what ``decide`` gives, transaction by transaction; gives all changes.

    Where somebody changed the same things meanwhile it reads and decides again, after a pause that grows and differs from
    theirs; raises Stale after ``ATTEMPTS``.
    """
    return decided(opened, lambda: decide(opened, load(opened)), dry_run)


def decided(opened: Session, decide: Callable[[], Iterable[Sequence[Change]]], dry_run: bool = False) -> list[Change]:
    """As ``change``, for decisions that read for themselves."""
    changes: list[Change] = []
    try:
        _write(opened, decide, dry_run, changes)
    except BaseException:
        if changes and not dry_run:
            _say_how_far(changes)
        raise
    return changes


def _say_how_far(changes: Sequence[Change]) -> None:
    """Of a change in parts that ends before its end."""
    from nodepool_ocb.cli.kit.output import say

    done = [row.name for row in journal.rows(changes)]
    if done:
        say(f"{counted(len(done), 'change')} written, the last of {done[-1]}; the same command goes on with the rest")


def _write(
    opened: Session, decide: Callable[[], Iterable[Sequence[Change]]], dry_run: bool, changes: list[Change]
) -> None:
    """``changes`` grows by each transaction that is written."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for transaction in decide():
                assert not structure.forgotten(transaction), "what comes or goes raises the structure"
                if dry_run:
                    journal.remember(opened, transaction)
                else:
                    opened.commit(transaction)
                changes += transaction
        except Stale as stale:
            if attempt == ATTEMPTS:
                raise Stale(f"others keep changing the same things ({stale}); try again", stale.path) from stale
            time.sleep(random.uniform(0, min(LONGEST_PAUSE_SECONDS, 0.01 * 2**attempt)))
        else:
            break


def parts(changes: Iterable[Change]) -> Iterator[Sequence[Change]]:
    """Independent changes, in transactions that ZooKeeper takes."""
    return limits.parts(limits.singly(changes))


# -- journal what was changed --


def report(
    changes: Sequence[Change],
    dry_run: bool = False,
    explanations: Sequence[str] = (),
    notes: Sequence[str] = (),
    kept: Sequence[ChangeRow] = (),
    **more: Any,
) -> None:
    """Print the changes, or those of a dry run, as one document. A dry run that found any exits with 10.

    ``notes`` are the explanations that are said though it is no dry run; ``kept``: rows of records that stay as they are;
    ``more`` are fields of the document.
    """
    report_rows(journal.rows(changes), dry_run, explanations, notes, kept, **more)


def report_rows(
    rows: Sequence[ChangeRow],
    dry_run: bool = False,
    explanations: Sequence[str] = (),
    notes: Sequence[str] = (),
    kept: Sequence[ChangeRow] = (),
    **more: Any,
) -> None:
    """As ``report``, of changes that are named already."""
    from nodepool_ocb.cli.kit import output

    if output.chosen() == "name":
        output.things([*rows, *kept], ("name",))
    elif output.chosen() != "table":
        more |= {"kept": tuple(kept)} if kept else {}
        document = ChangesDocument(dry_run=dry_run, changes=tuple(rows), explanations=tuple(explanations), **more)
        output.thing(document, "")
    elif rows:
        for explanation in explanations if dry_run else ():
            output.say(explanation)
        detailed = (dry_run or len(rows) <= NOTES) and any(row.fields for row in rows)
        columns = ("change", "kind", "name", "state", *(["fields"] if detailed else []))
        output.things(rows, columns, shown=[DetailedRow.of(row) for row in rows])
    if rows and not dry_run:
        _note(notes)
    if not rows:
        names = some([row.name for row in kept])
        output.say(f"nothing to do; unchanged: {names}" if kept else "nothing to do")
    if dry_run and len(rows) > NOTES and output.chosen() == "table":
        output.say(f"in all: {_summary(rows)}")
    if dry_run and rows:
        raise click.exceptions.Exit(10)


def _summary(rows: Sequence[ChangeRow]) -> str:
    """How much of what: "3 attributes to change, 20 nodes to create"."""
    found = sorted(Counter((row.kind, row.change) for row in rows).items())
    return ", ".join(
        f"{counted(count, kind, kind if kind.endswith('s') else None)} to {what}" for (kind, what), count in found
    )


def _note(notes: Sequence[str]) -> None:
    from nodepool_ocb.cli.kit import output

    for note in notes[:NOTES]:
        output.say(note)
    if len(notes) > NOTES:
        output.say(f"{counted(len(notes) - NOTES, 'note')} more; -o json has all")
