"""``nodepool-ocb adoption``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.joining.rules import (
    AdoptionCheck,
    AdoptionDelete,
    AdoptionList,
    AdoptionSet,
    AdoptionShow,
)

COLUMNS = ("name", "order", "when", "node", "deployment", "commission", "roles", "commit", "allow_install")

rule_argument = click.argument("rule", shell_complete=completion.adoption_rules)


@click.group(cls=Noun)
def command() -> None:
    """Rules that make nodes of machines that wait, by their facts."""


@command.command("set", operation=AdoptionSet)
@rule_argument
@click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=completion.adoption_fields)
@dry_run_option
def set_(rule: str, words: Sequence[str], dry_run: bool) -> None:
    """Create or change a rule: name=TEMPLATE, when=SELECTOR, order=, deployment=, tags=A,B, labels.K=V,
    racks.SWITCH=RACK, network=, user=, roles=A,B, commission=A,B, commit=true, allow_install=true.
    """
    reporting.performed(perform(AdoptionSet(rule=rule, assignments=tuple(words)), dry_run=dry_run))


@command.command(operation=AdoptionDelete)
@rule_argument
@dry_run_option
def delete(rule: str, dry_run: bool) -> None:
    """Delete a rule; the nodes that it made stay."""
    reporting.performed(perform(AdoptionDelete(rule=rule), dry_run=dry_run))


@command.command("list", operation=AdoptionList)
def list_() -> None:
    """Every rule, in the order in which they count."""
    output.things(perform(AdoptionList()).answer, COLUMNS)


@command.command(operation=AdoptionShow)
@rule_argument
def show(rule: str) -> None:
    """One rule."""
    output.thing(perform(AdoptionShow(rule=rule)).answer, rule)


@command.command(operation=AdoptionCheck)
def check() -> None:
    """The node that each waiting machine would become, without a change; or the reason why no rule fits."""
    output.things(perform(AdoptionCheck()).answer, ("mac", "node", "rule", "reason"), key="mac")
