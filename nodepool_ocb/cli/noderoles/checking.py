"""``noderole check`` and ``noderole drift``: whether machines are still as their noderoles left them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import output, reporting
from nodepool_ocb.cli.kit.options import Verb, dry_run_option, timeout_option
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.kit.selecting import noderoles_argument, noderoles_given, selector_option
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.documents.counting import some
from nodepool_ocb.errors import TimedOut
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.operations.noderoles.awaiting import NoderoleCheckLook, check_looks
from nodepool_ocb.operations.noderoles.checking import NoderoleCheck, NoderoleCheckResults, NoderoleDrift
from nodepool_ocb.operations.waiting import CheckStatus
from nodepool_ocb.views.drift import found as shown

DRIFTED_EXIT: Final = 10  # as of every command that looks and finds changes
UNKNOWN_EXIT: Final = 1
NAMED: Final = 5  # noderoles in a sentence
COLUMNS: Final = ("noderole", "drift", "checked", "difference")


@click.command(cls=Verb, operation=(NoderoleCheck, NoderoleCheckLook, NoderoleCheckResults))
@noderoles_argument
@selector_option
@click.option("--wait", is_flag=True, help="Wait for the results; exit 10 if any has drifted, 1 if one is unknown.")
@timeout_option
@dry_run_option
def check(names: Sequence[str], selector: str | None, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Ask machines whether they are still as ACTIVE noderoles left them; nothing is changed.

    Each check is claimed and run like a run of the role (docs/drift.md). A selector leaves out noderoles that cannot be
    checked now.
    """
    performed = perform(NoderoleCheck(noderoles=noderoles_given(names, selector), selector=selector), dry_run=dry_run)
    if wait and not dry_run:
        asked = performed.answer.asked
        _wait(asked, timeout_seconds)
        _tell(perform(NoderoleCheckResults(asked=asked)).answer, everything=selector is None)
    else:
        reporting.performed(performed)


def _wait(asked: Mapping[str, int], timeout_seconds: float | None) -> None:
    """Until all checks have ended, while the progress is shown; raises TimedOut, or NotFound where one was deleted."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: CheckStatus | None = None
    try:
        with waits.going_on("the check", lambda: "noderole drift"), waits.LiveProgress() as progress:
            for last in check_looks(performer(), asked, deadline, waits.TICK_SECONDS):
                progress.note(last.held_up)
                progress.tell(last.tally)
                if not last.waiting:
                    return
    except TimedOut:
        for each in last.held_up if last is not None else ():
            output.say(each)
        raise


def _tell(rows: list[shown.DriftRow], everything: bool) -> None:
    """``everything``: the table has noderoles in sync, too."""
    document = shown.asked(rows)
    listed = [row for row in rows if everything or row.drift != Drift.IN_SYNC]
    if output.chosen() == "name":
        output.things(rows, ("noderole",), key="noderole")
    elif listed or output.chosen() != "table":
        output.thing(document, "", output.table(listed, COLUMNS))
    output.say(f"{document.in_sync} in sync, {document.drifted} drifted, {document.unknown} unknown")
    if document.drifted:
        drifted = [row.noderole for row in rows if row.drift == Drift.DRIFTED]
        output.say(f"to run the drifted ones again: nodepool-ocb noderole refresh {some(drifted, NAMED)}")
        raise click.exceptions.Exit(DRIFTED_EXIT)
    if document.unknown:
        raise click.exceptions.Exit(UNKNOWN_EXIT)


@click.command("drift", cls=Verb, operation=NoderoleDrift)
@noderoles_argument
@selector_option
@click.option("--all", "everything", is_flag=True, help="Also noderoles that are in sync, or were never checked.")
def list_drift(names: Sequence[str], selector: str | None, everything: bool) -> None:
    """The results of the newest checks: drifted and unknown noderoles. For one noderole, the whole difference."""
    every = not names and selector is None
    operation = NoderoleDrift(
        noderoles=() if every else noderoles_given(names, selector), selector=selector, everything=everything
    )
    found = perform(operation).answer
    rows = found.rows
    if len(names) == 1 and len(rows) == 1 and output.chosen() == "table":
        output.text(rows[0], "\n".join([f"{rows[0].noderole}: {rows[0].drift}", *filter(None, [rows[0].output])]))
    else:
        output.things(rows, COLUMNS, key="noderole")
        if not rows and every:
            output.say(found.nothing)
