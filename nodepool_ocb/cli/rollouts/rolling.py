"""Rollouts as commands print them, and the words that name one.

A rollout is written ``DEPLOYMENT/ID``; the deployment alone means its newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.views.rollouts import tables
from nodepool_ocb.views.rollouts.rows import RolloutDocument, RolloutRow

if TYPE_CHECKING:
    from rich.console import RenderableType


MOST_LINES: Final = 10
GROUP_COLUMNS: Final = ("group", "critical", "state", "phase", "batch", "nodes", "since", "detail")
NODE_COLUMNS: Final = ("node", "state", "group", "since", "reason")

rollout_argument = click.argument("rollout", required=False, metavar="[ROLLOUT]", shell_complete=completion.rollouts)
deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="Of this deployment; else of the only one that has any."
)


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
