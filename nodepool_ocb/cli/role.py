"""``nodepool-ocb role``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import role_of
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.views import roles as shown


@click.group(cls=Noun)
def command() -> None:
    """The roles that can be bound to nodes."""


@command.command("list")
@click.option("--flag", "flags", multiple=True, help="Only roles that have this flag.")
@click.option("--barclamp", help="Only roles of this barclamp.")
def list_(flags: tuple[str, ...], barclamp: str | None) -> None:
    """Every role that was imported."""
    rows = shown.rows(session.world(), flags, barclamp)
    output.things(rows, ("name", "barclamp", "jig", "flags", "requires"))


@command.command()
@click.argument("role", shell_complete=completion.roles)
def show(role: str) -> None:
    """One role, as it was imported."""
    output.thing(shown.RoleDocument(role, role_of(session.world(), role).record), role)
