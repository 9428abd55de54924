"""How every command prints its changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import click

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.operations.operation import Explained, Performed
from nodepool_ocb.views.changes import ChangeRow, ChangesDocument, DetailedRow

CHANGES: Final = 10  # the exit code of a dry run that found changes
NOTES: Final = 12  # that are shown in a table


def performed(performed: Performed[Any], **more: Any) -> None:
    """Print the changes of an operation that answers with ``Explained``; a dry run that found any exits with 10."""
    found: list[Explained] = [*performed.answers]
    rows(
        performed.rows,
        performed.dry_run,
        [line for answer in found for line in answer.explanations],
        [line for answer in found for line in answer.notes],
        [row for answer in found for row in answer.kept],
        **more,
    )


def rows(
    rows: Sequence[ChangeRow],
    dry_run: bool = False,
    explanations: Sequence[str] = (),
    notes: Sequence[str] = (),
    kept: Sequence[ChangeRow] = (),
    **more: Any,
) -> None:
    """Print the changes, or those of a dry run, as one document. A dry run that found any exits with 10.

    ``notes``: the explanations that are shown also if it is no dry run; ``kept``: rows of records that stay as they are;
    ``more``: fields of the document.
    """
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
        raise click.exceptions.Exit(CHANGES)


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
