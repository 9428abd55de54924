"""Saved plans of operations: one is made of a dry run, and becomes the operation again."""

from __future__ import annotations

from typing import Any

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.operation import Call, Operation, Procedure
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.plans import saved
from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.operations.wire import codec


def refuse(operation: Operation[Any], call: Call) -> None:
    """Raises Invalid for a call that cannot be saved as a plan."""
    title = operation.title()
    if not call.dry_run:
        raise Invalid(f"{title}: a plan is saved from a dry run; give --dry-run, too")
    if (reason := registry.reason_local(type(operation))) is not None:
        raise Invalid(f"{title}: a plan cannot hold it. {reason}")
    if operation.confidential:
        raise Invalid(f"{title}: a plan cannot hold it: its answer is a secret for the person that it is made for")


def plan_of(performer: Performer) -> SavedPlan | None:
    """The plan of the dry run that was performed last; None if there is nothing to do.

    Raises Invalid for a secret in plain text.
    """
    basis, call, operation = performer.basis, performer.call, performer.operation
    assert basis is not None, "a dry run was performed"
    assert operation is not None, "a dry run was performed"
    if places := sorted({*performer.plain_secrets}):
        raise Invalid(
            f"{operation.title()}: {', '.join(places)} is secret, and a plan would hold it in plain text;"
            " give a reference (secret:file:/PATH), or set it without a plan"
        )
    if not basis.records and not any(issubclass(each, Procedure) for each in operation.reads):
        return None
    at = saved.moment(basis.at)
    return SavedPlan(
        cluster=performer.cluster,
        operation=registry.name_of(type(operation)),
        fields=msgspec.json.decode(codec.encode_fields(operation)),
        reason=None if call.reason is None else saved.plain(call.reason),
        by=saved.named(call.login),
        host=saved.named(call.host),
        at=at,
        expires=saved.end(at),
        rows=basis.rows,
        answers=basis.answers,
        records=dict(basis.records),
    ).sealed()


def operation_of(plan: SavedPlan, kind: type[Operation[Any]]) -> Operation[Any]:
    """The operation of a plan, which must be of this kind. Raises Invalid, which names the key of the plan."""
    name = registry.name_of(kind)
    if plan.operation != name:
        raise Invalid(f"operation: this is a plan of {plan.operation}, and not of {name}")
    if not kind.writes or kind.confidential or registry.reason_local(kind) is not None:
        raise Invalid(f"operation: {plan.operation} is carried out without a plan")
    plan.require_whole()
    try:
        return codec.decode_operation(kind, msgspec.json.encode(plan.fields))
    except Invalid as wrong:
        raise Invalid(f"fields: {wrong}") from wrong
