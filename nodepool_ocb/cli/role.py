"""``nodepool-ocb role``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.names import role_of
from nodepool_ocb.cli.kit.options import Noun
from nodepool_ocb.model.records import Json


@click.group(cls=Noun)
def command() -> None:
    """The roles that can be bound to nodes."""


@command.command("list")
@click.option("--flag", "flags", multiple=True, help="Only roles that have this flag.")
@click.option("--barclamp", help="Only roles of this barclamp.")
def list_(flags: tuple[str, ...], barclamp: str | None) -> None:
    """Every role that was imported."""
    rows: list[dict[str, Json]] = [
        {
            "name": name,
            "barclamp": role.record.barclamp,
            "jig": role.record.jig,
            "flags": list(role.record.flags),
            "requires": list(role.record.requires),
            "description": role.record.description,
        }
        for name, role in sorted(session.world().roles.items())
        if set(flags) <= set(role.record.flags) and barclamp in (None, role.record.barclamp)
    ]
    output.things(rows, ("name", "barclamp", "jig", "flags", "requires"))


@command.command()
@click.argument("role", shell_complete=completion.roles)
def show(role: str) -> None:
    """One role, as it was imported."""
    found = role_of(session.world(), role)
    output.thing({"name": role, **output.plain(found.record)}, role)
