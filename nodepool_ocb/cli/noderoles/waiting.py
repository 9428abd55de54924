"""Waiting until noderoles are ACTIVE, with its progress on stderr; ``operations.waiting`` has the rules."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import click
from msgspec import UNSET, UnsetType

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.noderoles.committing import say_what_is_left
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import InError, OcbError, TimedOut
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.noderoles import awaiting
from nodepool_ocb.operations.operation import AwaitedNoderoles, Operation, Performed
from nodepool_ocb.operations.waiting import WaitStatus, error
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.pictures.matrix import RANK
from nodepool_ocb.views.pictures.tally import sentence
from nodepool_ocb.views.progress import AwaitedRow, WaitDocument

if TYPE_CHECKING:
    from rich.console import RenderableType

LIVE: Final = 12  # noderoles below the count, on a terminal
FEW: Final = 4  # that are named after an interrupt
MOST: Final = 12  # that are named at the end

T = TypeVar("T")


def wait(
    awaited: AwaitedNoderoles,
    timeout_seconds: float | None,
    changes: tuple[ChangeRow, ...] | UnsetType = UNSET,
    again: str | None = None,
) -> None:
    """Wait until these noderoles are ACTIVE, and print the end: one document.

    Raises InError, NotFound (deleted meanwhile), or TimedOut. ``again`` are the words of the command that waits again.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    settled = bool(asked("settled"))
    last: WaitStatus | None = None
    ended: OcbError | None = None
    begun = time.monotonic()
    try:
        with waits.going_on("the commit", lambda: again or _again(last)):
            for last in _looks(awaited, deadline):
                if last.progress.settled if settled else last.progress.outcome:
                    ended = error(last.progress)
                    break
    except TimedOut as late:
        ended = late
    _tell(last, ended, changes, time.monotonic() - begun)
    if isinstance(ended, TimedOut) and last is not None:
        for each in last.held_up:
            output.say(each)
    if isinstance(ended, InError) and last is not None and last.progress.failed:
        _say_next_step(last, settled=settled)
    if ended is not None:
        raise ended


def _say_next_step(last: WaitStatus, *, settled: bool) -> None:
    now = last.progress
    of = f" --deployment {last.deployments[0]}" if len(last.deployments) == 1 else ""
    retry = f"--failed{of}" if len(now.failed) > 1 else now.failed[0]
    if now.moving and not settled:
        output.say(f"{counted(len(now.moving), 'noderole')} may still become ACTIVE; --settled waits for all of them")
    output.say(
        f"see: nodepool-ocb noderole log {now.failed[0]}; mend the cause, then: nodepool-ocb noderole retry {retry}"
    )


def _again(last: WaitStatus | None) -> str:
    names = [*last.progress.ready, *last.progress.waiting] if last else []
    return f"noderole wait {' '.join(names)}" if 0 < len(names) <= FEW else "status --watch"


def refuse_settled_alone(*, wait: bool, dry_run: bool) -> None:
    """Raises UsageError for ``--settled`` without a wait."""
    if asked("settled") and (not wait or dry_run):
        raise click.UsageError("--settled goes with --wait")


def perform_and_wait(
    operation: Operation[T], wait_too: bool, timeout_seconds: float | None, dry_run: bool = False, yes: bool = False
) -> Performed[T]:
    """Perform an operation that answers with ``Explained``; then print its changes, or wait and print the end."""
    refuse_settled_alone(wait=wait_too, dry_run=dry_run)
    performed = perform(operation, dry_run=dry_run, yes=yes)
    if not wait_too or dry_run:
        reporting.performed(performed)
    else:
        wait(operation.awaited(performed.answer), timeout_seconds, changes=performed.rows)
    return performed


def commit_and_wait(
    operation: Operation[Committed], wait_too: bool, timeout_seconds: float | None, dry_run: bool
) -> None:
    """``perform_and_wait``; then say which noderoles stay outdated, or became so while others ran."""
    performed = perform_and_wait(operation, wait_too, timeout_seconds, dry_run)
    say_what_is_left(performed.answer, waited=wait_too and not dry_run)


def _looks(awaited: AwaitedNoderoles, deadline: float | None) -> Iterator[WaitStatus]:
    """Each look that shows a change, or the end; the progress is shown meanwhile."""
    with waits.LiveProgress() as progress:
        for each in awaiting.looks(performer(), awaited, deadline, waits.TICK_SECONDS):
            if each.changed:
                progress.note(each.held_up)
            progress.tell(each.tally, *_table(progress.width, each))
            if each.changed or each.progress.outcome:
                yield each


def _table(width: int | None, standing: WaitStatus) -> list[RenderableType]:
    """Noderoles that move or failed, before those that wait."""
    if width is None or not standing.progress.waiting:
        return []
    waiting = set(standing.progress.waiting)
    found = [row for row in standing.rows if row.noderole in waiting]
    rows = sorted(found, key=lambda row: RANK.get(row.state, 0) if row.state else 0)
    return [output.picture(rows[:LIVE], ("noderole", "state", "since", "reason"), ("since",), width)]


def _tell(
    last: WaitStatus | None, ended: OcbError | None, changes: tuple[ChangeRow, ...] | UnsetType, seconds: float
) -> None:
    if last is None:
        return
    now = last.progress
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    rows = last.rows
    if output.chosen() == "name":
        output.things(rows, ("noderole",), key="noderole")
        return
    document = WaitDocument(outcome=outcome, stuck=now.stuck, noderoles=rows, changes=changes)
    lacking = rows if outcome == "timeout" else [row for row in rows if row.state in (State.ERROR, None)]
    shown = _failed(lacking) if output.chosen() == "table" else []
    output.thing(document, "", *shown, sentence(last.tally, seconds))


def _failed(rows: Sequence[AwaitedRow]) -> list[RenderableType]:
    """The noderoles that did not become ACTIVE, those in ERROR first; beyond MOST they are counted."""
    short = [row for row in rows if row.state is not State.ACTIVE]
    short.sort(key=lambda row: (RANK[row.state] if row.state else -1, row.noderole))
    more = [f"... and {len(short) - MOST:,} more; -o json has all"] if len(short) > MOST else []
    return [output.table(short[:MOST], ("noderole", "state", "since", "reason")), *more] if short else []
