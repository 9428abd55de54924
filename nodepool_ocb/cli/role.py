"""``nodepool-ocb role``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Noun, confirm, dry_run_option, yes_option
from nodepool_ocb.engine import roles
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.names import role_of
from nodepool_ocb.views import roles as shown


@click.group(cls=Noun)
def command() -> None:
    """The roles that can be bound to nodes."""


@command.command("list")
@click.option("--flag", "flags", multiple=True, help="Only roles that have this flag.")
@click.option("--barclamp", help="Only roles of this barclamp.")
@click.option("--all", "everything", is_flag=True, help="Also those that runs of task lists made of their tasks.")
def list_(flags: tuple[str, ...], barclamp: str | None, everything: bool) -> None:
    """Every role that was imported."""
    rows = shown.rows(session.world(), flags, barclamp, tasks=everything)
    output.things(rows, ("name", "barclamp", "jig", "flags", "requires"))


@command.command()
@click.argument("role", shell_complete=completion.roles)
def show(role: str) -> None:
    """One role, as it was imported."""
    output.thing(shown.RoleDocument(role, role_of(session.world(), role).record), role)


@command.command(writes=True)
@click.argument("role", shell_complete=completion.roles)
@yes_option
@dry_run_option
def delete(role: str, yes: bool, dry_run: bool) -> None:
    """Delete a role: refused while it is bound, is in a deployment, or is required by another role."""

    def decide(_: object, world: World) -> Iterator[Sequence[Change]]:
        role_of(world, role)
        yield roles.deletion(world, [role])

    with session.session() as opened:
        role_of(session.load(opened), role)
        if not dry_run:
            confirm(f"delete role {role}", yes)
        changes = session.change(opened, decide, dry_run)
    session.report(changes, dry_run)
