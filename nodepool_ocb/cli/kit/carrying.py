"""``--plan FILE``: the saved plan of a file is carried out, or shown again, in place of the arguments of a verb."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from nodepool_ocb.cli.kit import output, plans, reporting
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.calls import saving
from nodepool_ocb.operations.operation import Explained, Operation, Performed
from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.views.view import View

SHOWN: Final = 300  # letters of the fields in a sentence


class PlanCarriedOut(View, frozen=True, kw_only=True):
    """The result of a plan without rows: the answers of its operation."""

    operation: str
    dry_run: bool
    answers: tuple[Json, ...]


def carry_out(kinds: Sequence[type[Operation[Any]]], file: str, *, dry_run: bool, yes: bool) -> None:
    """Carry out the plan of a file, which must be of one of these operations; or show it again in a dry run."""
    plan = plans.read(file)
    operation = _operation(plan, kinds, file)
    fields = json.dumps(plan.fields, ensure_ascii=False)
    short = fields if len(fields) <= SHOWN else f"{fields[:SHOWN]}..."
    output.say(f"plan of {plan.author}, {plan.at.isoformat().replace('+00:00', 'Z')}: {operation.title()} {short}")
    _report(plan, perform(operation, dry_run=dry_run, yes=yes, plan=plan))


def _operation(plan: SavedPlan, kinds: Sequence[type[Operation[Any]]], file: str) -> Operation[Any]:
    kind = next((each for each in kinds if registry.name_of(each) == plan.operation), None)
    if kind is None:
        verb = plan.operation.replace("/", " ")
        raise Invalid(
            f"{file}: operation: this is a plan of {verb}; carry it out with: nodepool-ocb {verb} --plan {file}"
        )
    try:
        return saving.operation_of(plan, kind)
    except Invalid as wrong:
        raise Invalid([f"{file}: {each}" for each in wrong.problems]) from wrong


def _report(plan: SavedPlan, performed: Performed[Any]) -> None:
    if performed.rows and all(isinstance(each, Explained) for each in performed.answers):
        reporting.performed(performed)
    elif performed.rows:
        reporting.rows(performed.rows, performed.dry_run)
    else:
        answers = tuple(msgspec.to_builtins(each) for each in performed.answers)
        made = PlanCarriedOut(operation=plan.operation, dry_run=performed.dry_run, answers=answers)
        output.thing(made, plan.operation)
        if performed.dry_run:
            raise click.exceptions.Exit(reporting.CHANGES)
