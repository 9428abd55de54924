"""Rollouts as commands see them: found by their names, read, shown in rows and words, and changed.

A rollout is written ``DEPLOYMENT/ID``; the deployment alone means its newest. What a person asks is one transaction: it
changes what the engine decides from, and the annealer that drives the rollout does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.rollouts import stages
from nodepool_ocb.errors import Ambiguous, Conflict
from nodepool_ocb.model.records import Change, LockOwner
from nodepool_ocb.operations.reads.rollouts import ReadRolloutDriver
from nodepool_ocb.operations.rollouts import finding, reading
from nodepool_ocb.rollout.records import Decision, Rollout
from nodepool_ocb.views.rollouts import rows as shown
from nodepool_ocb.views.rollouts import tables
from nodepool_ocb.views.rollouts.rows import Key, RolloutDocument, RolloutRow

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nodepool_ocb.store.client.session import Session

MOST_LINES: Final = 10
GROUP_COLUMNS: Final = ("group", "critical", "state", "phase", "batch", "nodes", "since", "detail")
NODE_COLUMNS: Final = ("node", "state", "group", "since", "reason")

rollout_argument = click.argument("rollout", required=False, metavar="[ROLLOUT]", shell_complete=completion.rollouts)
deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="Of this deployment; else of the only one that has any."
)


# -- finding and reading --


def find(opened: Session, written: str | None, deployment: str | None) -> Key:
    """The rollout that a call means; raises NotFound, or UsageError."""
    try:
        return performer().read(finding.find(written, deployment), opened)
    except Ambiguous as wrong:
        raise click.UsageError(str(wrong)) from wrong


def driver(opened: Session, key: Key) -> LockOwner | None:
    """The annealer that drives the rollout."""
    return performer().read(iter(ReadRolloutDriver(*key)), opened)


def warn_of_nobody(opened: Session) -> None:
    """A note if no annealer is running."""
    performer().read(finding.warn_of_no_annealer(), opened)


# -- showing --


def rows(opened: Session) -> list[RolloutRow]:
    """The row of each rollout, by deployment, the newest first."""
    return performer().read(reading.rows(), opened)


def print_row(row: RolloutRow) -> None:
    """One rollout at a glance: one document."""
    output.thing(row, row.rollout, output.fields(tables.words(row), but=("since", "started")))


def parts(document: RolloutDocument) -> list[RenderableType]:
    """A rollout for people."""
    made: list[RenderableType] = [
        output.fields(tables.about(document)),
        "",
        output.table(map(tables.group_words, document.groups), GROUP_COLUMNS),
    ]
    if document.failed:
        made += ["", output.table(document.failed, NODE_COLUMNS)]
    if document.next:
        made += ["", output.verbatim(["to go on:", *(f"  {line}" for line in document.next[:MOST_LINES])])]
    return made


# -- commands --


def steer(opened: Session, key: Key, ask: Callable[[Rollout], Sequence[Decision]], dry_run: bool = False) -> None:
    """Write what somebody asks of a rollout, and print how it stands then: one document; or what a dry run would change."""
    from nodepool_ocb.store import rollouts

    asked: list[Decision] = []

    def decide(rollout: Rollout) -> Sequence[Decision]:
        try:
            asked[:] = ask(rollout)
        except Conflict as refused:
            if str(key) in str(refused):
                raise
            raise Conflict(f"{refused}; look at it: nodepool-ocb rollout show {key}") from None
        return asked

    def joined(rollout: Rollout) -> Sequence[Change]:
        return stages.goes_on(opened, key.deployment, rollout)

    if dry_run:
        _, would = rollouts.proposal(opened, *key, decide, opened.now(), joined)
        changes = session.decided(opened, lambda: [would] if asked else [], dry_run)
        session.report(changes, dry_run, [_said(key, decision) for decision in asked])
        return
    after = rollouts.steer(opened, *key, decide, opened.now(), joined)
    if not asked:
        output.say("nothing to do")
    for decision in asked:
        output.say(_said(key, decision))
    holder = driver(opened, key)
    print_row(shown.row(key, after.head, holder, after.groups))
    if not after.over:
        warn_of_nobody(opened)


def _said(key: Key, decision: Decision) -> str:
    return f"{f'group {decision.name}' if decision.name else f'rollout {key}'}: {decision.reason}"
