"""``nodepool-ocb role``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.roles.deleting import RoleDelete
from nodepool_ocb.operations.roles.reading import RoleList, RoleShow


@click.group(cls=Noun)
def command() -> None:
    """The roles that can be bound to nodes."""


@command.command("list", operation=RoleList)
@click.option("--flag", "flags", multiple=True, help="Only roles that have this flag.")
@click.option("--barclamp", help="Only roles of this barclamp.")
@click.option("--all", "everything", is_flag=True, help="Also those that runs of task lists made of their tasks.")
def list_(flags: tuple[str, ...], barclamp: str | None, everything: bool) -> None:
    """Every role that was imported."""
    operation = RoleList(flags=flags, barclamp=barclamp, tasks=everything)
    output.things(perform(operation).answer, ("name", "barclamp", "jig", "flags", "requires"))


@command.command(operation=RoleShow)
@click.argument("role", shell_complete=completion.roles)
def show(role: str) -> None:
    """One role, as it was imported."""
    output.thing(perform(RoleShow(role=role)).answer, role)


@command.command(operation=RoleDelete)
@click.argument("role", shell_complete=completion.roles)
@yes_option
@dry_run_option
def delete(role: str, yes: bool, dry_run: bool) -> None:
    """Delete a role: refused while it is bound, is in a deployment, or is required by another role."""
    reporting.performed(perform(RoleDelete(role=role), dry_run=dry_run, yes=yes))
