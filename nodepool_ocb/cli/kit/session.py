"""How commands that are not operations yet reach ZooKeeper, and how every command prints its changes.

``operations.performer`` has the rules of reading and writing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import click

from nodepool_ocb.cli.kit.options import settings as settings
from nodepool_ocb.cli.kit.performing import me as me
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.operation import Explained, Performed
from nodepool_ocb.operations.performer import CONNECT_SECONDS
from nodepool_ocb.views.changes import ChangeRow, ChangesDocument, DetailedRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

NOTES: Final = 12  # that are said for people


def session(
    ctx: click.Context | None = None,
    timeout_seconds: float = CONNECT_SECONDS,
    on_connected: Callable[[], None] | None = None,
    founding: bool = False,
) -> AbstractContextManager[Session]:
    """A session that is closed at the end, and notes its commits in the journal.

    Raises Unavailable, Denied, Invalid, or NoCluster unless it is ``founding``.
    """
    return performer(ctx).session(timeout_seconds, on_connected, founding)


def load(opened: Session) -> World:
    """The world as it is now, no older than this call; names records that cannot be read on stderr."""
    return performer().load(opened)


def decided(opened: Session, decide: Callable[[], Iterable[Sequence[Change]]], dry_run: bool = False) -> list[Change]:
    """Write the transactions of ``decide``, one by one; returns all changes. Raises Stale after many attempts."""
    return performer().decided(opened, decide, dry_run)


def parts(changes: Iterable[Change]) -> Iterator[Sequence[Change]]:
    """Independent changes, in transactions that ZooKeeper takes."""
    return limits.parts(limits.singly(changes))


# -- journal what was changed --


def report_performed(performed: Performed[Any], **more: Any) -> None:
    """Print the changes of an operation that answers with ``Explained``; a dry run that found any exits with 10."""
    found: list[Explained] = [*performed.answers]
    report_rows(
        performed.rows,
        performed.dry_run,
        [line for answer in found for line in answer.explanations],
        [line for answer in found for line in answer.notes],
        [row for answer in found for row in answer.kept],
        **more,
    )


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
    report_rows(performer().journal.rows(changes), dry_run, explanations, notes, kept, **more)


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
    """The number of changes of each kind: "3 attributes to change, 20 nodes to create"."""
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
